"""Looking after a yard: who works, who did what, what is too old, what may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from taskyard.domain.clock import micros
from taskyard.domain.lane import Audited
from taskyard.domain.node import Node
from taskyard.domain.retention import Pruned
from taskyard.domain.statistics import KindStatistics, by_kind
from taskyard.engine.maintenance.prune import prune
from taskyard.options import instant
from taskyard.store.port import Check
from taskyard.verbs.base import DEFAULT_ACTOR, Ground

DAY = timedelta(days=1)


class OverviewVerbs(Ground):
    async def statistics(self, *, since: datetime | timedelta = DAY) -> list[KindStatistics]:
        """How each kind has fared since then, or for so long; to the hour."""
        if isinstance(since, timedelta):
            start = await self.store.now() - micros(since.total_seconds())
        else:
            start = instant("since", since) or 0
        return by_kind(await self.store.tallied(start))

    async def nodes(self) -> list[Node]:
        return await self.store.nodes()

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        return await self.store.audit(limit=limit, before=before)

    async def prune(
        self,
        *,
        dry_run: bool = False,
        older_than: timedelta | None = None,
        actor: str = DEFAULT_ACTOR,
        told: Callable[[int], None] = lambda _: None,
    ) -> Pruned:
        """Remove now what the retention says, or all ended tasks that are `older_than` this.

        Workers do it daily by themselves. `told` hears how many tasks have gone so far.
        """
        retention = self._retention_of_routes()
        if older_than is not None:
            retention = retention.older_than(older_than)
        return await prune(self.store, retention, actor=actor, dry_run=dry_run, told=told)

    async def diagnose(self) -> Sequence[Check]:
        return await self.store.diagnose()
