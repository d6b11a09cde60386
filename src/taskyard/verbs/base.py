"""What the verbs of a yard work with."""

from __future__ import annotations

from typing import Any

import msgspec

from taskyard.bridge import Bridge
from taskyard.domain.classify import Classifier
from taskyard.domain.cron import Cron
from taskyard.domain.retention import Retention
from taskyard.engine.enqueuer import Enqueuer
from taskyard.engine.hooks import Hooks
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
    _hooks: Hooks
    _declared_crons: dict[str, Cron]
    store: Store
    _enqueuer: Enqueuer
    _notifier: Notifier
    _waiting: WaitingRoom
    _workers: list[Worker]
    _bridge: Bridge[Any]

    def _retention_of_routes(self) -> Retention:
        """What is said of a kind holds for its older names and versions too."""
        said = self.retention.kinds
        kinds = {
            route: said[kind.name]
            for kind in self.registry
            if kind.name in said
            for route in kind.versions.routes
        }
        return msgspec.structs.replace(self.retention, kinds={**kinds, **said})
