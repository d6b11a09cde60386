"""How soon an idle worker picks a task up: from the return of enqueue to the body's first line.

Enqueue returns after its commit, so this is what claiming costs: one more commit and the way to
the body. Samples are spaced, so that the worker is idle each time.
"""

from __future__ import annotations

import asyncio
import random
import time

from bench.figure import Figure, Stage, median, percentile
from bench.ground import ground
from bench.worker_process import make_yard, worker_process
from taskyard import Yard

SPEC = ("engine-28",)
BOUND = (
    "An idle worker starts a task within 2 ms (p50) of its enqueue in the same process on SQLite, "
    "and within 15 ms on a server or when another process enqueued it."
)

WARM_UP = 20
SAMPLES = 300
HERE_MS = 2.0
ELSEWHERE_MS = 15.0


async def measure(stage: Stage) -> list[Figure]:
    with ground(stage.options.store, stage.folder) as url_of:
        async with make_yard(url_of("here")) as yard:
            worker = yard.worker()
            await worker.start()
            here = await sample(stage, "in one process", yard)
            await worker.stop()
        url = url_of("elsewhere")
        async with make_yard(url) as yard, worker_process(url):
            elsewhere = await sample(stage, "from another process", yard)
    nearby = HERE_MS if stage.options.store == "sqlite" else ELSEWHERE_MS
    return [*figures("one process", here, nearby), *figures("two", elsewhere, ELSEWHERE_MS)]


async def sample(stage: Stage, where: str, yard: Yard) -> list[tuple[float, float]]:
    """(from the return of enqueue, from its call) to the start of the body, in ms."""
    stamp = yard.kind("stamp")
    waits: list[tuple[float, float]] = []
    with stage.steps(f"enqueueing {where}", WARM_UP + SAMPLES) as advance:
        for _ in range(WARM_UP + SAMPLES):
            called = time.monotonic_ns()
            handle = await stamp.enqueue()
            returned = time.monotonic_ns()
            started = await handle.result(timeout=30)
            waits.append(((started - returned) / 1e6, (started - called) / 1e6))
            advance(1)
            # At random, so that the samples do not fall in step with anything periodic.
            await asyncio.sleep(random.uniform(0.05, 0.15))
    return waits[WARM_UP:]


def figures(where: str, waits: list[tuple[float, float]], most: float) -> list[Figure]:
    after, whole = [first for first, _ in waits], [second for _, second in waits]
    return [
        Figure(
            name=f"pick-up, {where}: p50",
            value=median(after),
            unit="ms",
            at_most=most,
            detail=f"{len(waits)} samples; with the enqueue itself {median(whole):.2f} ms",
        ),
        Figure(
            name=f"pick-up, {where}: p99",
            value=percentile(after, 99),
            unit="ms",
            detail=f"with the enqueue itself {percentile(whole, 99):.2f} ms",
        ),
    ]
