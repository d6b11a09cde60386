"""How attempts ended, and how long they took, as a worker counts it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from taskyard import Context, Fatal, Retry, Snooze, State, Yard
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.statistics import Count, KindStatistics, by_kind
from tests.engine.waits import ended, until, working


async def figures(yard: Yard) -> dict[str, KindStatistics]:
    return {one.kind: one for one in by_kind(await yard.store.tallied(0))}


@pytest.mark.spec("lifecycle-16")
async def test_every_end_of_an_attempt_is_counted(yard: Yard) -> None:
    inside = asyncio.Event()

    @yard.task(retry=Retry.fixed(1, delay=0.0))
    async def mixed(ctx: Context, how: str) -> Snooze | None:
        match how:
            case "retried" if ctx.attempt == 1:
                raise ConnectionError
            case "failed":
                raise Fatal
            case "snoozed" if ctx.attempt == 1:
                return Snooze(0.0)
            case "cancelled" | "released" | "paused":
                inside.set()
                await asyncio.Event().wait()
            case _:
                pass
        return None

    async with working(yard, grace=0.05):
        for how in ("completed", "retried", "failed", "snoozed"):
            await ended(await mixed.enqueue(how))
        cancelled = await mixed.enqueue("cancelled")
        await inside.wait()
        await yard.cancel(cancelled.id)
        await ended(cancelled)
        inside.clear()
        paused = await mixed.enqueue("paused")
        await inside.wait()
        await yard.store.pause(paused.id, actor="ann")
        await until(paused, State.PAUSED)
        inside.clear()
        await mixed.enqueue("released")
        await inside.wait()
    found = (await figures(yard))["mixed"]
    assert found.ended == {
        "completed": 3,
        "retried": 1,
        "failed": 1,
        "snoozed": 1,
        "cancelled": 1,
        "paused": 1,
        "released": 1,
    }
    assert (found.run.count, found.wait.count) == (9, 9)
    assert found.success == 3 / 4


@pytest.mark.spec("lifecycle-16")
async def test_run_and_wait_times_are_those_of_the_bodies(yard: Yard) -> None:
    @yard.task()
    async def timed() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(0.05)
        return loop.time() - began

    handle = await timed.enqueue()
    made = (await handle.task()).run_at
    async with working(yard):
        took = await handle.result(20)
    task = await handle.task()
    assert task.started_at is not None
    waited = (task.started_at - made) / 1e6
    found = (await figures(yard))["timed"]
    assert found.run.mean >= took * 0.99
    assert found.run.p50 >= took / 1.2
    assert waited * 0.9 <= found.wait.mean <= waited * 1.1 + 0.01


@pytest.mark.spec("lifecycle-16")
async def test_what_could_not_be_stored_is_kept_and_stored_once(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    @yard.task()
    async def quick() -> None: ...

    tally, away = yard.store.tally, True

    async def flaky(counts: Sequence[Count]) -> None:
        if away:
            raise StoreUnavailable("away")
        await tally(counts)

    monkeypatch.setattr(yard.store, "tally", flaky)
    async with working(yard) as worker:
        await (await quick.enqueue()).result(20)
        await worker._tally.flush()
        await (await quick.enqueue()).result(20)
        await worker._tally.flush()
        assert await figures(yard) == {}
        away = False
        await worker._tally.flush()
        assert (await figures(yard))["quick"].ended == {"completed": 2}
        await worker._tally.flush()
    assert (await figures(yard))["quick"].ended == {"completed": 2}


@pytest.mark.spec("lifecycle-16")
async def test_a_worker_with_nothing_to_tell_does_not_call_the_store(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Sequence[Count]] = []

    async def noted(counts: Sequence[Count]) -> None:
        calls.append(counts)

    monkeypatch.setattr(yard.store, "tally", noted)
    async with working(yard) as worker:
        await worker._tally.flush()
    assert calls == []
