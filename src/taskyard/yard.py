"""Yard: the one object a user holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from taskyard.bridge import Bridge
from taskyard.domain.classify import Classifier
from taskyard.domain.retention import Retention
from taskyard.engine.hooks import Hooks
from taskyard.engine.registry import Registry
from taskyard.settings import load
from taskyard.verbs.every import EveryVerb
from taskyard.verbs.sync import SyncYard, Twin

if TYPE_CHECKING:
    from taskyard.trial import Testing


class Yard(EveryVerb):
    """Kinds, and the store their tasks live in. Nothing is opened before it is used."""

    def __init__(self, url: str | None = None, *, retention: Retention | None = None) -> None:
        """`retention`: how long ended tasks are kept, and when the old ones go.

        What is not said comes from the settings; docs/guides/settings.md.
        """
        self.url = load().settings.url if url is None else url
        self.retention = load().retention if retention is None else retention
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

    def testing(
        self, *, start: datetime | None = None, capabilities: Sequence[str] = ()
    ) -> Testing:
        """For tests: a store in memory, time that stands still, tasks that run when told to.

        `async with yard.testing() as trial:`, or `with` in a test that blocks;
        docs/guides/testing.md.
        """
        from taskyard.trial import Testing  # noqa: PLC0415 - for tests only

        return Testing(self, start=start, capabilities=capabilities)

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
