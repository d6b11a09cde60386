"""Fails waiting tasks whose deadline has passed."""

from __future__ import annotations

from taskyard.engine.maintenance.duty import Duty

CHUNK = 1000


class Expirer(Duty):
    name = "expire"
    idle_seconds = 1.0

    async def perform(self) -> float | None:
        return 0.0 if await self.store.expire(CHUNK) == CHUNK else None
