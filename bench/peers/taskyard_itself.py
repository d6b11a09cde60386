"""Taskyard as it comes. The option `keyed` gives each task one of a thousand keys with limit 1,
`lane` one of ten priorities in a lane of capacity 100; the measure `idle_here` is `idle` with the
worker in the process that enqueues.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import measuring
import uvloop
from measuring import PAUSES, WARM_UP, Peer, main, mark

from taskyard import Yard
from taskyard.domain.state import State
from taskyard.domain.task import NewTask

KEYS = 1_000
CAPACITY = 100
PRIORITIES = 10


class TaskyardPeer(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.filled = 0
        self.yard = Yard(url if "://" in url else f"sqlite:///{url}/yard.db")

        @self.yard.task()
        async def noop(n: int) -> None:
            mark(n)

        self.noop = noop
        self.keyed = [noop.options(key=f"key {n}") for n in range(KEYS)]
        self.ranked = [noop.options(priority=n) for n in range(1, 1 + PRIORITIES)]

    async def open(self) -> None:
        await self.yard.open()
        if "lane" in self.options:
            await self.yard.set_lane("default", capacity=CAPACITY)

    async def enqueue(self, n: int) -> None:
        await self.noop.enqueue(n)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.yard.enqueue(*(self.new(n) for n in numbers))
        self.filled += len(numbers)

    def new(self, n: int) -> NewTask:
        if "keyed" in self.options:
            return self.keyed[n % KEYS].new(n)
        if "lane" in self.options:
            return self.ranked[n % PRIORITIES].new(n)
        return self.noop.new(n)

    async def is_done(self) -> bool:
        return (await self.yard.counts())[State.COMPLETED] == self.filled

    def work(self, go: Callable[[], None]) -> None:
        # As `taskyard worker` does where uvloop is installed.
        uvloop.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        await self.yard.open()
        go()
        await self.yard.work()


async def idle_here(peer: TaskyardPeer, count: int) -> dict[str, float]:
    began = measuring._began = [0] * (WARM_UP + count)
    waits: list[float] = []
    async with peer.yard:
        worker = peer.yard.worker()
        await worker.start()
        for n in range(WARM_UP + count):
            await peer.enqueue(n)
            returned = time.monotonic_ns()
            while not began[n]:  # noqa: ASYNC110 - a body leaves its mark and rings nothing
                # At random, out of step with anything periodic.
                await asyncio.sleep(random.uniform(*PAUSES))
            waits.append(max(0, began[n] - returned) / 1e6)
        await worker.stop()
    percentiles = statistics.quantiles(waits[WARM_UP:], n=100, method="inclusive")
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98]}


if __name__ == "__main__":
    if sys.argv[1] == "idle_here":
        print(json.dumps(asyncio.run(idle_here(TaskyardPeer(sys.argv[2]), int(sys.argv[3])))))
    else:
        main(TaskyardPeer)
