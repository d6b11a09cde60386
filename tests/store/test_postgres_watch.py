"""Calls to PostgreSQL share one timer, and each has its own time all the same."""

from __future__ import annotations

import asyncio

import pytest

from taskyard.store.postgres.watch import Watch

SECONDS = 0.05
PATIENCE = 10.0


async def endless(watch: Watch) -> None:
    with watch.call():
        await asyncio.Event().wait()


async def test_a_call_that_takes_too_long_is_given_up_alone() -> None:
    watch = Watch(SECONDS)
    begun = asyncio.get_running_loop().time()
    with watch.call():
        pass
    async with asyncio.timeout(PATIENCE):
        late = asyncio.create_task(endless(watch))
        with pytest.raises(TimeoutError):
            await late
        assert asyncio.get_running_loop().time() - begun >= SECONDS
        assert late.cancelling() == 0


async def test_each_has_its_time_from_when_it_began() -> None:
    watch = Watch(SECONDS)
    loop = asyncio.get_running_loop()

    async def how_long() -> float:
        begun = loop.time()
        with pytest.raises(TimeoutError):
            await endless(watch)
        return loop.time() - begun

    async with asyncio.timeout(PATIENCE):
        first = asyncio.create_task(how_long())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SECONDS / 2):
                await asyncio.Event().wait()
        assert await how_long() >= SECONDS
        assert await first >= SECONDS
        assert await how_long() >= SECONDS  # after one that found no other under way


async def test_one_that_its_caller_has_cancelled_is_cancelled() -> None:
    watch = Watch(PATIENCE)
    call = asyncio.create_task(endless(watch))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_one_that_was_cancelled_when_it_was_late_too_is_cancelled() -> None:
    watch = Watch(SECONDS)

    async def cancelled_while_given_up() -> None:
        with watch.call():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                call.cancel()
                raise

    call = asyncio.create_task(cancelled_while_given_up())
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_the_error_of_a_call_is_its_own() -> None:
    watch = Watch(PATIENCE)
    with pytest.raises(LookupError), watch.call():
        raise LookupError


def test_it_is_good_for_one_loop_after_the_other() -> None:
    watch = Watch(SECONDS)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(endless(watch))
