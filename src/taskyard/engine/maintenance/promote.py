"""Queues pending tasks when their time has come."""

from __future__ import annotations

from taskyard.domain.clock import seconds
from taskyard.engine.log import logger
from taskyard.engine.maintenance.duty import Duty

log = logger("promote")


class Promoter(Duty):
    name = "promote"
    idle_seconds = 5.0
    heeds_hints = True  # a task may have come that is due before the one we sleep for

    async def perform(self) -> float | None:
        promoted = await self.store.promote()
        if promoted.count:
            log.debug("promote", count=promoted.count)
            self._notifier.ring()
        if promoted.next_due is None:
            return None
        return max(0.0, seconds(promoted.next_due - await self.store.now()))
