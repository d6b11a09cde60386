"""What the verbs of a yard work with."""

from __future__ import annotations

from typing import Any

from taskyard.bridge import Bridge
from taskyard.domain.classify import Classifier
from taskyard.domain.retention import Retention
from taskyard.engine.notifier import Notifier
from taskyard.engine.registry import Registry
from taskyard.engine.waiting import WaitingRoom
from taskyard.engine.worker import Worker
from taskyard.store.port import Store

DEFAULT_ACTOR = "python"


class Ground:
    """The parts that all verbs share; `Yard` makes them."""

    url: str
    retention: Retention
    registry: Registry
    classifier: Classifier
    store: Store
    _notifier: Notifier
    _waiting: WaitingRoom
    _workers: list[Worker]
    _bridge: Bridge[Any]
