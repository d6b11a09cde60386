"""Notices a claim loop that has stopped doing its work, and begins it anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from taskyard.domain.explain import Condition
from taskyard.domain.lane import Lane, Order
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.engine.log import logger
from taskyard.store.port import Store

EVERY = 20.0
SCANS = 10
SAMPLE = 20

log = logger("watchdog")


class Claiming(Protocol):
    """What the watchdog asks of its worker."""

    def free_slots(self) -> int:
        """How many tasks it could start now; 0 if it is not to claim."""

    def last_taken(self, lane: str) -> float:
        """When (monotonic) it last took a task of this lane."""

    def serves(self, task: Task) -> bool: ...


class Watchdog:
    """A queue that grows from scan to scan, while slots here are free and nothing is taken.

    Each worker looks after its own claim loop, and only while it has free slots: one small question
    in `every` seconds. A queue may grow for good reasons; before it says anything, it asks the
    store whether one of the tasks could run here.
    """

    def __init__(
        self,
        store: Store,
        claiming: Claiming,
        restart: Callable[[], Awaitable[None]],
        *,
        every: float = EVERY,
        scans: int = SCANS,
    ) -> None:
        self._store = store
        self._claiming = claiming
        self._restart = restart
        self._every = every
        self._scans = scans
        self._seen: dict[str, int] = {}
        self._grown: dict[str, int] = {}
        self._looked = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.stalls = 0  # how often the claim loop was begun anew

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._main(), name="taskyard-watchdog")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _main(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.scan()
            except Exception as error:
                log.warning("scan", error=str(error))

    async def scan(self) -> None:
        if not self._claiming.free_slots():
            self._seen.clear()
            self._grown.clear()
            return
        last, self._looked = self._looked, time.monotonic()
        lanes = {lane.name: lane for lane in await self._store.lanes() if _has_room(lane)}
        self._grown = {
            name: self._grown.get(name, 0) + 1
            for name, lane in lanes.items()
            if lane.queued > self._seen.get(name, lane.queued)
            and self._claiming.last_taken(name) < last
        }
        self._seen = {name: lane.queued for name, lane in lanes.items()}
        for name, scans in list(self._grown.items()):
            if scans >= self._scans:
                del self._grown[name]
                if await self._could_run(lanes[name]):
                    await self._bark(lanes[name])
                    return

    async def _bark(self, lane: Lane) -> None:
        self.stalls += 1
        self._grown.clear()
        log.error(
            "a queue grows while slots are free: the claim loop is begun anew",
            lane=lane.name,
            queued=lane.queued,
            free=self._claiming.free_slots(),
            stalls=self.stalls,
        )
        await self._restart()

    async def _could_run(self, lane: Lane) -> bool:
        """Whether one of those that came last could run here, as far as the store can tell."""
        query = TaskQuery(state=State.QUEUED, lane=lane.name, limit=SAMPLE)
        for task in await self._store.find(query):
            if self._claiming.serves(task) and await self._is_free(task, lane):
                return True
        return False

    async def _is_free(self, task: Task, lane: Lane) -> bool:
        explanation = await self._store.explain(task.id)
        if explanation.state is not State.QUEUED:
            return False
        # Behind others that are passed over is no reason to wait, but for the head of a fifo lane.
        passable = frozenset({Condition.ORDER} if lane.order is not Order.FIFO else ())
        return passable.issuperset(wait.condition for wait in explanation.waits)


def _has_room(lane: Lane) -> bool:
    return not lane.paused and (lane.capacity is None or lane.running < lane.capacity)
