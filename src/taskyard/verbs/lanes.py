"""Lanes, keys and the yard as a whole: how much may run."""

from __future__ import annotations

from taskyard.domain.lane import Key, KeyRule, Lane, LaneChange
from taskyard.domain.task import check_name
from taskyard.verbs.base import DEFAULT_ACTOR, Ground


class LaneVerbs(Ground):
    async def lanes(self) -> list[Lane]:
        return await self.store.lanes()

    async def set_lane(
        self, name: str, *, capacity: int | None, actor: str = DEFAULT_ACTOR
    ) -> Lane:
        """Most tasks of this lane running at once, over all workers; None: no limit."""
        return await self._change_lane(name, LaneChange(capacity=capacity), actor)

    async def pause_lane(
        self, name: str, *, reason: str | None = None, actor: str = DEFAULT_ACTOR
    ) -> Lane:
        """Start nothing new in this lane; what runs goes on, enqueue still works."""
        return await self._change_lane(name, LaneChange(paused=True, paused_reason=reason), actor)

    async def resume_lane(self, name: str, *, actor: str = DEFAULT_ACTOR) -> Lane:
        return await self._change_lane(name, LaneChange(paused=False), actor)

    async def _change_lane(self, name: str, change: LaneChange, actor: str) -> Lane:
        check_name("lane", name)
        lane = await self.store.set_lane(name, change, actor=actor)
        self._notifier.ring()
        return lane

    async def pause(self, *, actor: str = DEFAULT_ACTOR) -> None:
        """Start nothing new in any lane."""
        await self.store.pause_yard(True, actor=actor)

    async def resume(self, *, actor: str = DEFAULT_ACTOR) -> None:
        await self.store.pause_yard(False, actor=actor)
        self._notifier.ring()

    async def keys(self, limit: int = 100) -> list[Key]:
        return await self.store.keys(limit)

    async def key_rules(self) -> list[KeyRule]:
        return await self.store.key_rules()

    async def limit_key(
        self, pattern: str, limit: int | None, *, actor: str = DEFAULT_ACTOR
    ) -> None:
        """How many may hold this key, or each key with this prefix (`host:*`); None: 1 again."""
        await self.store.set_key_rule(pattern, limit, actor=actor)
        self._notifier.ring()
