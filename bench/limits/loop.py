"""The bare loops: a batch is handled while the store finishes the one before and gives the next,
or, where no more may run, before it does.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
import uvloop

# What a worker of Taskyard with its 100 slots has in hand when bodies take no time.
BATCH = 500
RUNNERS = 100  # as many bodies as may wait at once
IN_LANE = 100  # what a lane of that capacity lets run

# What `enqueue` in each of these ways can put in one commit.
GROUPS = {"one": 1, "at_once": 100, "bulk": 1_000}

PROCESSING = ("process", "lane")

WARM_UP = 20
PAUSES = (0.005, 0.050)

Body = tuple[int, int, str]  # number, attempt, payload
End = tuple[int, int, str]  # number, attempt, result
Turn = Callable[[Sequence[End], int], Awaitable[Sequence[Body]]]  # claims so many at most
Answer = Mapping[str, float]

_decode = msgspec.json.Decoder(list[int]).decode
_encode = msgspec.json.Encoder().encode


class Runners:
    """Bodies are coroutines, as those of a worker are, and long-lived runners await one after the
    other: the loop that won the trial.
    """

    def __init__(self) -> None:
        self._bodies: deque[Body] = deque()
        self._ends: list[End] = []
        self._called = asyncio.Event()
        self._tasks = [asyncio.create_task(self._run()) for _ in range(RUNNERS)]

    def begin(self, bodies: Sequence[Body]) -> None:
        self._bodies.extend(bodies)
        self._called.set()

    @property
    def are_busy(self) -> bool:
        """Or there are ends of theirs that nobody has looked at."""
        return bool(self._bodies or self._ends)

    def ended(self) -> list[End]:
        """Since the last look."""
        ends, self._ends = self._ends, []
        return ends

    async def all_ended(self) -> list[End]:
        while self._bodies:  # noqa: ASYNC110 - they need the loop
            await asyncio.sleep(0)
        return self.ended()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        while True:
            await self._called.wait()
            while self._bodies:
                self._ends.append(await handled(self._bodies.popleft()))
            self._called.clear()


async def process(turn: Turn, count: int, what: str = "process") -> Answer:
    """Until the store knows that all are done."""
    runners = Runners()
    await asyncio.sleep(0)
    print("begin", flush=True)  # from here on it is counted what the store is asked
    begun = time.perf_counter()
    done = await (in_lane if what == "lane" else overlapping)(turn, runners)
    assert done == count, f"{done} of {count} tasks were processed"
    rate = count / (time.perf_counter() - begun)
    runners.stop()
    return {"rate": rate, "done": rate}


async def overlapping(turn: Turn, runners: Runners) -> int:
    done = 0
    claimed = await turn([], BATCH)
    while claimed or runners.are_busy:
        step = asyncio.ensure_future(turn(runners.ended(), BATCH))
        await asyncio.sleep(0)  # it is sent before the batch is handled
        runners.begin(claimed)
        done += len(claimed)
        claimed = await step
    return done


async def in_lane(turn: Turn, runners: Runners) -> int:
    """As many as may run, and then as many again: who runs has to be gone before others come."""
    done = 0
    claimed = await turn([], IN_LANE)
    while claimed:
        runners.begin(claimed)
        done += len(claimed)
        claimed = await turn(await runners.all_ended(), IN_LANE)
    return done


async def idle(
    add: Callable[[int], Awaitable[object]],
    turn: Turn,
    rung: Callable[[], Awaitable[object]],
    count: int,
) -> Answer:
    """Single tasks at random moments: from the call of `add` to the return of the claim.

    `rung` waits until the store has said that there is something new.
    """
    claimed: dict[int, int] = {}
    seen = asyncio.Event()

    async def work() -> None:
        ends: list[End] = []
        while True:
            bodies = await turn(ends, BATCH)
            claimed.update((body[0], time.monotonic_ns()) for body in bodies)
            ends = [await handled(body) for body in bodies]
            seen.set()
            if not bodies:
                await rung()

    waits: list[float] = []
    worker = asyncio.create_task(work())
    for number in range(1, WARM_UP + count + 1):
        await asyncio.sleep(random.uniform(*PAUSES))
        called = time.monotonic_ns()
        await add(number)
        while number not in claimed:
            seen.clear()
            await seen.wait()
        waits.append((claimed[number] - called) / 1e6)
    worker.cancel()
    percentiles = statistics.quantiles(waits[WARM_UP:], n=100, method="inclusive")
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98]}


async def noop(_: int) -> object:
    """What a user's handler would be."""


async def handled(body: Body) -> End:
    number, attempt, payload = body
    result = await noop(*_decode(payload))
    return number, attempt, _encode(result).decode()


async def enqueue(write: Callable[[int, int], Awaitable[None]], count: int, group: int) -> Answer:
    """`write` saves so many tasks, from this number on."""
    begun = time.perf_counter()
    for first in range(0, count, group):
        await write(first, group)
    return {"rate": count / (time.perf_counter() - begun)}


def main(measure: Callable[[str, str, int], Awaitable[Answer]]) -> None:
    what, url, count, _, *special = sys.argv[1:]

    async def run() -> Answer:
        return await measure(special[0] if special else what, url, int(count))

    print(json.dumps(uvloop.run(run())))
