"""Taskyard on the store of a URL, as it comes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import pairwise

import uvloop

from taskyard import Yard
from taskyard.domain.state import State

AT_ONCE = 100
BULK = 1_000


async def main(url: str, one_by_one: int, many: int) -> dict[str, float]:
    yard = Yard(url)
    total = one_by_one + 2 * many
    done = 0
    all_ran = asyncio.Event()

    @yard.task()
    async def noop(n: int) -> None:  # noqa: ARG001 - the same payload as the other side's
        nonlocal done
        done += 1
        if done == total:
            all_ran.set()

    async def enqueue_some(count: int) -> None:
        for n in range(count):
            await noop.enqueue(n)

    async with yard:
        marks = [time.perf_counter()]
        await enqueue_some(one_by_one)
        marks.append(time.perf_counter())
        await asyncio.gather(*(enqueue_some(many // AT_ONCE) for _ in range(AT_ONCE)))
        marks.append(time.perf_counter())
        for _ in range(many // BULK):
            await yard.enqueue(*(noop.new(n) for n in range(BULK)))
        marks.append(time.perf_counter())
        worker = yard.worker()
        await worker.start()
        await all_ran.wait()
        # A body that has run is not done before the store knows.
        while (await yard.counts())[State.COMPLETED] < total:
            pass
        marks.append(time.perf_counter())
    one, at_once, bulk, processed = (b - a for a, b in pairwise(marks))
    return {
        "one": one_by_one / one,
        "at_once": many / at_once,
        "bulk": many / bulk,
        "processed": total / processed,
    }


if __name__ == "__main__":
    run = uvloop.run if sys.argv[4:] == ["uvloop"] else asyncio.run
    print(json.dumps(run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
