"""Yard: the one object a user holds."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from taskyard.bridge import Bridge
from taskyard.domain.classify import Classifier
from taskyard.domain.retention import Retention
from taskyard.engine.hooks import Hooks
from taskyard.engine.registry import Registry
from taskyard.verbs.every import EveryVerb
from taskyard.verbs.sync import SyncYard, Twin

DEFAULT_URL = "sqlite:///yard.db"


class Yard(EveryVerb):
    """Kinds, and the store their tasks live in. Nothing is opened before it is used."""

    def __init__(self, url: str = DEFAULT_URL, *, retention: Retention | None = None) -> None:
        """`retention`: how long ended tasks are kept, and when the old ones go."""
        self.url = url
        self.retention = retention or Retention()
        self.retention.check()
        self.registry = Registry()
        self.classifier = Classifier()
        self._hooks = Hooks()
        self._declared_crons = {}
        self._settle()
        self._bridge = Bridge(lambda: Twin(self))

    @property
    def sync(self) -> SyncYard:
        """The same verbs for callers that block; docs/guides/sync.md."""
        return SyncYard(self, self._bridge)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.close()
