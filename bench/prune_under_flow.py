"""How soon tasks of a steady flow start while the same worker prunes what ended long ago.

The yard is filled with finished tasks. Then tasks are offered at a steady rate, and in turns the
worker prunes or does not, until nothing old is left. What counts is how long tasks wait from the
moment they are due to their body's first line, in the one kind of window against the other. They
are due by the clock and not when their enqueue gets through: a prune that holds up everybody would
otherwise hide behind those that could not even ask. From when they are saved, it is the claim
alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench.figure import Figure, Stage, median, percentile
from bench.flow import Flow, flowing, make_yard
from bench.ground import ground
from taskyard import Reason, State, Yard
from taskyard.domain.clock import SECOND
from taskyard.domain.moved import Moved
from taskyard.domain.task import Task, new_task_id

SPEC = ("lifecycle-15",)
BOUND = (
    "Pruning a million finished tasks while a thousand tasks a second flow: "
    "the p99 of a claim at most doubles."
)

MOST = 2.0
WARM_UP = 5.0  # seconds
WINDOW = 10.0
CHUNK = 1_000
AGE = 10 * 86_400 * SECOND  # how long ago the finished tasks have ended


async def measure(stage: Stage) -> list[Figure]:
    options = stage.options
    with ground(options.store, stage.folder) as url_of:
        url = url_of("flow")
        async with make_yard(url, []) as yard:
            await fill(stage, yard, options.finished)
            async with flowing(url, yard, options.flow) as flow:
                await asyncio.sleep(WARM_UP)
                await take_turns(stage, flow)
            counts = await yard.counts()
    assert flow.pruned == options.finished, f"{flow.pruned:,} were pruned"
    assert counts[State.COMPLETED] == len(flow.due), "something of the flow was pruned, or lost"
    return list(figures(flow))


async def fill(stage: Stage, yard: Yard, count: int) -> None:
    """As if from another yard: they come with the times that they have."""
    ended = await yard.store.now() - AGE
    with stage.steps("finished tasks", count) as advance:
        for first in range(0, count, CHUNK):
            numbers = range(first, min(first + CHUNK, count))
            await yard.store.import_tasks([Moved(finished(n, ended + n)) for n in numbers])
            advance(len(numbers))


def finished(n: int, at: int) -> Task:
    return Task(
        no=n + 1,
        id=new_task_id(),
        kind="mark",
        lane="default",
        priority=5,
        seq=n + 1,
        payload=f'{{"n":{n}}}',
        state=State.COMPLETED,
        reason=Reason.FINISHED,
        attempt=1,
        charged=1,
        max_charged=4,
        timeout=60.0,
        created_at=at - 2 * SECOND,
        run_at=at - 2 * SECOND,
        started_at=at - SECOND,
        ended_at=at,
    )


async def take_turns(stage: Stage, flow: Flow) -> None:
    with stage.steps("pruning, every other window", stage.options.finished) as advance:
        while not flow.over.is_set():
            before = flow.pruned
            await flow.quiet(WINDOW)
            await flow.prune(WINDOW)
            advance(flow.pruned - before)


def figures(flow: Flow) -> Iterator[Figure]:
    free, pruning = flow.waits(pruning=False), flow.waits(pruning=True)
    seconds = flow.seconds(pruning=True)
    for which, name in enumerate(("due", "saved")):
        without, during = ([waits[which] for waits in one] for one in (free, pruning))
        yield Figure(
            name=f"p99 from {name} to start, pruning to not",
            value=percentile(during, 99) / percentile(without, 99),
            at_most=MOST,
            detail=f"{percentile(without, 99):.1f} → {percentile(during, 99):.1f} ms; "
            f"p50 {median(without):.1f} → {median(during):.1f}; "
            f"{len(without):,} and {len(during):,} tasks",
        )
    yield Figure(
        name="tasks pruned",
        value=flow.pruned / seconds,
        unit="/s",
        detail=f"{flow.pruned:,} in {seconds:.1f} s",
    )
