"""Waiting for results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from taskyard import ResultTimeout, StoreError, Yard
from taskyard.domain.errors import StoreUnavailable
from taskyard.store.port import Ending
from tests.engine.waits import ended, working


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


@pytest.mark.spec("engine-23")
@pytest.mark.parametrize("error", [StoreUnavailable("gone"), KeyError("a bug")])
async def test_whatever_goes_wrong_whoever_waits_is_told_in_the_end(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    @yard.task()
    async def work() -> int:
        return 1

    handle = await work.enqueue()
    async with working(yard):
        await ended(handle)
    endings, asked = yard.store.endings, 0

    async def broken(ids: Sequence[str]) -> list[Ending]:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise error
        return await endings(ids)

    monkeypatch.setattr(yard.store, "endings", broken)
    assert await handle.result(20) == 1
    assert asked == 3


async def _quiet(yard: Yard) -> bool:
    """Nobody waits, so nobody asks the store."""
    asking = yard._waiting._task
    assert asking is not None
    yard._notifier.ring()
    await asyncio.wait_for(asking, 20)
    return True
