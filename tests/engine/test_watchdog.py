"""A claim loop that has stopped doing its work is noticed and begun anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

from taskyard import State, Yard
from taskyard.domain.outcome import Verdict
from taskyard.engine.watchdog import SCANS, Watchdog
from taskyard.store.port import Answered, ClaimRequest, Turn
from tests.engine.waits import running, working


class Stuck:
    """A store whose turns do not come back, for as long as `hangs`."""

    def __init__(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs = False
        self.hung = asyncio.Event()
        self._turn = yard.store.turn
        monkeypatch.setattr(yard.store, "turn", self.turn)

    async def turn(
        self, verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered
    ) -> Turn:
        if self.hangs:
            self.hung.set()
            await asyncio.Event().wait()
        return await self._turn(verdicts, request, answered)


async def grow(watchdog: Watchdog, add: Callable[[], object], scans: int) -> None:
    """So many scans, and before each one task more."""
    for _ in range(scans):
        await add()  # type: ignore[misc]
        await watchdog.scan()


@pytest.mark.spec("engine-26")
async def test_a_queue_that_grows_while_slots_are_free_restarts_the_claim_loop(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskyard")
    stuck = Stuck(yard, monkeypatch)

    @yard.task()
    async def quick() -> str:
        return "done"

    async with working(yard) as worker:
        assert await (await quick.enqueue()).result(20) == "done"
        await worker.watchdog.stop()
        stuck.hangs = True
        handle = await quick.enqueue()
        await stuck.hung.wait()

        await worker.watchdog.scan()  # so many wait now
        await grow(worker.watchdog, quick.enqueue, SCANS - 1)
        assert worker.watchdog.stalls == 0
        assert await handle.status() is State.QUEUED
        stuck.hangs = False
        await grow(worker.watchdog, quick.enqueue, 1)

        assert worker.watchdog.stalls == 1
        assert await handle.result(20) == "done"
    assert "a queue grows while slots are free: the claim loop is begun anew" in caplog.text


@pytest.mark.spec("engine-26")
async def test_what_ended_meanwhile_is_written_by_the_new_claim_loop(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()
    stuck = Stuck(yard, monkeypatch)

    @yard.task()
    async def slow() -> str:
        await go.wait()
        return "done"

    async with working(yard) as worker:
        handle = await slow.enqueue()
        await running(handle)
        stuck.hangs = True
        go.set()  # its verdict goes with a turn that never comes back
        await stuck.hung.wait()
        stuck.hangs = False
        await worker._pump.restart()
        assert await handle.result(20) == "done"
    assert (await handle.task()).attempt == 1


@pytest.mark.spec("engine-26")
@pytest.mark.parametrize("why", ["paused", "capacity", "key", "kind", "slots"])
async def test_a_queue_that_grows_for_a_good_reason_is_left_alone(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def held() -> None:
        began.set()
        await go.wait()

    @yard.task()
    async def elsewhere() -> None: ...

    key = "k" if why == "key" else None
    kind = elsewhere if why == "kind" else held.options(key=key)
    async with working(yard, kinds=["held"], slots=1 if why == "slots" else 5) as worker:
        await worker.watchdog.stop()
        if why == "capacity":
            await yard.set_lane("default", capacity=1)
        if why == "paused":
            await yard.pause_lane("default")
        elif why != "kind":
            await held.options(key=key).enqueue()
            await began.wait()
        asked = 0
        lanes = yard.store.lanes

        async def counted() -> object:
            nonlocal asked
            asked += 1
            return await lanes()

        monkeypatch.setattr(yard.store, "lanes", counted)
        await worker.watchdog.scan()
        await grow(worker.watchdog, kind.enqueue, 2 * SCANS)
        assert worker.watchdog.stalls == 0
        assert asked == (0 if why == "slots" else 2 * SCANS + 1)
        go.set()


@pytest.mark.spec("engine-26")
async def test_a_worker_that_only_cannot_keep_up_is_left_alone(yard: Yard) -> None:
    @yard.task()
    async def quick() -> None: ...

    async with working(yard) as worker:
        await worker.watchdog.stop()
        seen = 0

        async def busy() -> None:
            nonlocal seen
            await (await quick.enqueue()).result(20)
            seen += 1
            worker.watchdog._seen = {"default": -1}  # as if the queue had grown all the same

        await grow(worker.watchdog, busy, SCANS + 1)
        assert (worker.watchdog.stalls, worker.watchdog._grown) == (0, {})
        assert seen == SCANS + 1
