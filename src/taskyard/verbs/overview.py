"""Looking after a yard: who works, who did what, what is too old, what may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from taskyard.domain.clock import micros
from taskyard.domain.errors import InvalidOption, NotFound
from taskyard.domain.lane import Audited
from taskyard.domain.node import Node
from taskyard.domain.retention import Pruned
from taskyard.domain.statistics import KindStatistics, by_kind
from taskyard.engine.maintenance.prune import prune
from taskyard.options import instant
from taskyard.store.port import Check
from taskyard.verbs.base import DEFAULT_ACTOR, Ground

DAY = timedelta(days=1)
LONGEST_NOTE = 1000  # characters of each part of a line of the audit trail


class OverviewVerbs(Ground):
    async def statistics(self, *, since: datetime | timedelta = DAY) -> list[KindStatistics]:
        """How each kind has fared since then, or for so long; to the hour."""
        if isinstance(since, timedelta):
            start = await self.store.now() - micros(since.total_seconds())
        else:
            start = instant("since", since) or 0
        return by_kind(await self.store.tallied(start))

    async def nodes(self) -> list[Node]:
        """The workers that are alive, and the dead whose tasks nobody has taken over yet."""
        return await self.store.nodes()

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        """Who did what, newest first; the next page: `before` the `no` of the last line."""
        return await self.store.audit(limit=limit, before=before)

    async def note(
        self, action: str, subject: str, detail: str = "", *, actor: str = DEFAULT_ACTOR
    ) -> None:
        """Put a line on the audit trail, about something that is done outside of the store."""
        for what, text in (("action", action), ("subject", subject), ("detail", detail)):
            if len(text) > LONGEST_NOTE or not text.isprintable():
                raise InvalidOption(f"{what} is one line of at most {LONGEST_NOTE} characters")
        await self.store.note(action, subject, detail, actor=actor)

    async def drain_node(self, node_id: str, *, actor: str = DEFAULT_ACTOR) -> Node:
        """Let a worker claim no more; what it runs goes on."""
        node = await self._node(node_id)
        await self.store.note("drain", f"node:{node.id}", f"lease {node.lease}", actor=actor)
        await self.store.drain(node.lease)
        return await self._node(node_id)

    async def _node(self, node_id: str) -> Node:
        """As it was started last: one that died under this name may not have been rescued yet."""
        found = [node for node in await self.store.nodes() if node.id == node_id]
        if not found:
            raise NotFound(f"there is no worker {node_id}")
        return max(found, key=lambda node: node.lease)

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
        """Whether the store is safe, check by check, as `taskyard doctor` shows it."""
        return await self.store.diagnose()
