"""The bare loop: a batch is handled while the store finishes the one before and gives the next."""

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

# What `enqueue` in each of these ways can put in one commit.
GROUPS = {"one": 1, "at_once": 100, "bulk": 1_000}

WARM_UP = 20
PAUSES = (0.005, 0.050)

Body = tuple[int, int, str]  # number, attempt, payload
End = tuple[int, int, str]  # number, attempt, result
Turn = Callable[[Sequence[End]], Awaitable[Sequence[Body]]]
Answer = Mapping[str, float]

_decode = msgspec.json.Decoder(list[int]).decode
_encode = msgspec.json.Encoder().encode


async def process(turn: Turn, count: int) -> Answer:
    """Until the store knows that all are done.

    Bodies are coroutines, as those of a worker are, and long-lived runners await one after the
    other: the loop that won the trial.
    """
    bodies: deque[Body] = deque()
    ends: list[End] = []
    called = asyncio.Event()

    async def run() -> None:
        while True:
            await called.wait()
            while bodies:
                ends.append(await handled(bodies.popleft()))
            called.clear()

    runners = [asyncio.create_task(run()) for _ in range(RUNNERS)]
    await asyncio.sleep(0)
    print("begin", flush=True)  # from here on it is counted what the store is asked
    begun = time.perf_counter()
    done = 0
    claimed = await turn([])
    while claimed or bodies or ends:
        step = asyncio.ensure_future(turn(ends))
        ends = []
        await asyncio.sleep(0)  # it is sent before the batch is handled
        bodies.extend(claimed)
        called.set()
        done += len(claimed)
        claimed = await step
    assert done == count, f"{done} of {count} tasks were processed"
    rate = count / (time.perf_counter() - begun)
    for runner in runners:
        runner.cancel()
    return {"rate": rate, "done": rate}


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
            bodies = await turn(ends)
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
    what, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

    async def run() -> Answer:
        return await measure(what, url, count)

    print(json.dumps(uvloop.run(run())))
