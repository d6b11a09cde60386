"""A store that lost its last writes gives a worker again what it has in its hands already."""

from __future__ import annotations

import asyncio

import pytest

from taskyard import Context, Handle, State, Worker, Yard
from taskyard.engine.job import Job, Stop
from tests.engine.waits import ended, until, working


async def held(worker: Worker, handle: Handle[int], begun: asyncio.Event) -> Job:
    """The job of a task whose body has begun."""
    async with asyncio.timeout(20):
        await begun.wait()
    return worker.hand.running[(await handle.task()).no]


@pytest.mark.spec("engine-19")
async def test_the_attempt_that_runs_goes_on_and_is_not_begun_again(yard: Yard) -> None:
    begun, go, bodies = asyncio.Event(), asyncio.Event(), 0

    @yard.task()
    async def careful(ctx: Context) -> int:
        nonlocal bodies
        bodies += 1
        begun.set()
        await go.wait()
        return ctx.attempt

    async with working(yard) as worker:
        handle = await careful.enqueue()
        job = await held(worker, handle, begun)

        worker._pump._on_claim(worker.lease, [job.claimed], frozenset())

        assert worker.hand.running == {job.claimed.no: job}
        go.set()
        assert await handle.result(20) == 1
        assert bodies == 1


@pytest.mark.spec("engine-19")
async def test_beside_a_body_that_does_not_stop_no_other_begins(yard: Yard) -> None:
    begun, go, bodies = asyncio.Event(), asyncio.Event(), 0

    @yard.task()
    async def stubborn(ctx: Context) -> int:
        nonlocal bodies
        bodies += 1
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return ctx.attempt

    async with working(yard) as worker:
        handle = await stubborn.enqueue()
        job = await held(worker, handle, begun)
        job.ask(Stop.LOST)

        worker._pump._on_claim(worker.lease, [job.claimed], frozenset())

        put_off = await until(handle, State.PENDING)
        assert (put_off.reason, put_off.charged) == ("snoozed", 0)
        assert bodies == 1
        go.set()
        task = await ended(handle)
        assert (task.state, task.charged, bodies) == (State.COMPLETED, 1, 2)
