"""Yard: the one object a user holds."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from taskyard.domain.classify import Classifier
from taskyard.domain.retention import Retention
from taskyard.engine.notifier import Notifier
from taskyard.engine.registry import Registry
from taskyard.engine.waiting import WaitingRoom
from taskyard.store.port import Schema
from taskyard.store.url import open_store
from taskyard.verbs.declaring import Declaring
from taskyard.verbs.lanes import LaneVerbs
from taskyard.verbs.overview import OverviewVerbs
from taskyard.verbs.working import Working

DEFAULT_URL = "sqlite:///yard.db"


class Yard(Declaring, LaneVerbs, OverviewVerbs, Working):
    """Kinds, and the store their tasks live in. Nothing is opened before it is used."""

    def __init__(self, url: str = DEFAULT_URL, *, retention: Retention | None = None) -> None:
        """`retention`: how long ended tasks are kept, and when the old ones go."""
        self.url = url
        self.retention = retention or Retention()
        self.retention.check()
        self.registry = Registry()
        self.classifier = Classifier()
        self._settle()

    def _settle(self) -> None:
        """Make everything that belongs to this process."""
        self.store = open_store(self.url)
        self._notifier = Notifier(self.store)
        self._waiting = WaitingRoom(self.store, self._notifier)
        self._workers = []

    async def exists(self) -> bool:
        """Whether the store holds a yard already; `open` would make one."""
        return await self.store.exists()

    async def schema(self) -> Schema:
        """How far the schema of the store is from that of this release; `open` brings it there."""
        return await self.store.schema()

    async def open(self) -> None:
        await self.store.open()

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
