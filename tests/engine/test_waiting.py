"""Waiting for results."""

from __future__ import annotations

import asyncio

import pytest

from taskyard import ResultTimeout, StoreError, Yard
from tests.engine.waits import working


async def test_whoever_gave_up_is_not_waited_for(yard: Yard) -> None:
    @yard.task()
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    for _ in range(3):
        with pytest.raises(ResultTimeout):
            await handle.result(0)
    assert not yard._waiting._waiting
    assert await _quiet(yard)

    patient = asyncio.create_task(handle.result(20))
    with pytest.raises(ResultTimeout):
        await handle.result(0.01)
    async with working(yard):
        assert await patient == 1


async def test_closing_the_yard_tells_whoever_waits(yard: Yard) -> None:
    @yard.task()
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    watch, waits = yard._waiting._watch, asyncio.Event()

    def watched() -> None:
        watch()
        waits.set()

    yard._waiting._watch = watched  # type: ignore[method-assign]
    waiting = asyncio.create_task(handle.result())
    await waits.wait()
    await yard.close()
    with pytest.raises(StoreError, match="closed while waiting"):
        await waiting


async def _quiet(yard: Yard) -> bool:
    """Nobody waits, so nobody asks the store."""
    asking = yard._waiting._task
    assert asking is not None
    yard._notifier.ring()
    await asyncio.wait_for(asking, 20)
    return True
