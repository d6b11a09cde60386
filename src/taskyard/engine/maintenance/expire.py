"""Fails waiting tasks whose deadline has passed."""

from __future__ import annotations

from taskyard.engine.log import logger
from taskyard.engine.maintenance.duty import Duty

CHUNK = 1000

log = logger("expire")


class Expirer(Duty):
    name = "expire"
    idle_seconds = 1.0

    async def perform(self) -> float | None:
        count = await self.store.expire(CHUNK)
        if count:
            log.warning("expire", tasks=count)
        return 0.0 if count == CHUNK else None
