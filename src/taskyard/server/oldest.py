"""How long the oldest queued task of each lane has waited.

Stores list tasks newest first and go on below a number, so the oldest is found by halving: some
twenty short questions with a million tasks, a single one while the same task stays the oldest, and
a few when the next one is not far behind it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from taskyard.domain.clock import seconds
from taskyard.domain.lane import Lane
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Store

FRESH = 2.0  # seconds for which an answer is good


class Oldest:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, int] = {}  # lane -> number of its oldest queued task
        self._ages: dict[str, float] = {}
        self._asked = 0.0

    async def ages(self, lanes: Sequence[Lane]) -> dict[str, float]:
        """Seconds since it was due, of each lane with a queued task."""
        if time.monotonic() - self._asked >= FRESH:
            now = await self._store.now()
            found = {lane.name: await self._find(lane.name) for lane in lanes if lane.queued}
            self._known = {name: task.no for name, task in found.items() if task}
            self._ages = {
                name: max(0.0, seconds(now - task.run_at)) for name, task in found.items() if task
            }
            self._asked = time.monotonic()
        return self._ages

    async def _find(self, lane: str) -> Task | None:
        known, low = self._known.get(lane), 0
        found: list[Task] = []
        if known is not None:
            found = await self._below(lane, known + 1, limit=2)
            if [task.no for task in found] == [known]:
                return found[0]
            low = 0 if found else known + 1
        found = found or await self._below(lane, None)
        oldest = found[-1] if found else None
        while oldest is not None and low < oldest.no:
            middle = (low + oldest.no + 1) // 2
            found = await self._below(lane, middle)
            if found:
                oldest = found[0]
            else:
                low = middle
        return oldest

    async def _below(self, lane: str, no: int | None, limit: int = 1) -> list[Task]:
        return await self._store.find(
            TaskQuery(state=State.QUEUED, lane=lane, limit=limit, after=no)
        )
