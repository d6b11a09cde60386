"""Pausing a running task: it ends at a checkpoint, costs nothing, and goes on from there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard import Context, State, TaskFailed, Yard
from taskyard.domain.task import MAX_CHECKPOINT_BYTES
from taskyard.store.port import Pausing
from tests.engine import pausing_kinds
from tests.engine.isolated import written
from tests.engine.waits import ended, running, until, working

STYLES = ("coroutine", "thread", "isolated_coroutine", "isolated")


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        for kind in pausing_kinds.yard.registry:
            yard.registry.add(kind)
        yield yard


async def pause(yard: Yard, task_id: str) -> None:
    assert await yard.store.pause(task_id, actor="ann") is Pausing.ASKED
    yard._notifier.ring()


async def resume(yard: Yard, task_id: str) -> None:
    await yard.store.resume(task_id, actor="ann")
    yard._notifier.ring()


@pytest.mark.spec("engine-25", "engine-33", "engine-2")
@pytest.mark.parametrize("kind", STYLES)
async def test_a_body_ends_at_its_checkpoint_and_goes_on_from_there(
    yard: Yard, tmp_path: Path, kind: str
) -> None:
    async with working(yard):
        handle = await yard.kind(kind).options(key="k", dedup="d").enqueue(str(tmp_path))
        assert await written(tmp_path, "at") == "1 None"
        (tmp_path / "at").unlink()
        await written(tmp_path, "second")
        await pause(yard, handle.id)

        task = await until(handle, State.PAUSED)
        assert (task.reason, task.charged, task.attempt, task.asked) == ("operator", 0, 1, None)
        assert json.loads(task.checkpoint or "") == {"count": 2}
        assert (await yard.keys(), task.dedup) == ([], "d")

        await resume(yard, handle.id)
        assert await handle.result(20) == 3
    assert await written(tmp_path, "at") == "2 {'count': 2}"
    assert (await handle.task()).charged == 1


@pytest.mark.spec("engine-25")
@pytest.mark.parametrize("kind", STYLES)
async def test_a_body_that_comes_to_no_checkpoint_is_stopped_after_the_grace(
    yard: Yard, tmp_path: Path, kind: str
) -> None:
    async with working(yard, grace=0.1):
        handle = await yard.kind(f"endless_{kind}").enqueue(str(tmp_path))
        await written(tmp_path, "at")
        await pause(yard, handle.id)
        task = await until(handle, State.PAUSED)
    assert (task.charged, task.checkpoint, task.failures) == (0, '"before"', ())


@pytest.mark.spec("engine-25", "lifecycle-11")
async def test_an_isolated_body_that_does_not_listen_is_killed(yard: Yard, tmp_path: Path) -> None:
    async with working(yard, grace=0.1):
        handle = await yard.kind("deaf_isolated").enqueue(str(tmp_path))
        await written(tmp_path, "at")
        await pause(yard, handle.id)
        task = await until(handle, State.PAUSED)
    assert (task.charged, task.losses) == (0, 0)


@pytest.mark.spec("engine-25")
@pytest.mark.parametrize("kind", STYLES)
async def test_a_wish_that_is_taken_back_is_forgotten(
    yard: Yard, tmp_path: Path, kind: str
) -> None:
    async with working(yard):
        handle = await yard.kind(f"fickle_{kind}").enqueue(str(tmp_path))
        await written(tmp_path, "at")
        await pause(yard, handle.id)
        await written(tmp_path, "pausing")
        await resume(yard, handle.id)
        assert await handle.result(20) == 1


@pytest.mark.spec("engine-25")
async def test_a_body_that_paused_though_it_need_not_any_more_goes_on(yard: Yard) -> None:
    @yard.task()
    async def prompt(ctx: Context) -> int:
        if ctx.attempt == 1:
            job = worker.hand.running[ctx.hold.no]
            job.want_pause(True)  # the wish came, and was taken back before the body ended
        await ctx.checkpoint(ctx.attempt)
        return ctx.attempt

    async with working(yard) as worker:
        handle = await prompt.enqueue()
        assert await handle.result(20) == 2
    task = await handle.task()
    assert (task.charged, task.state) == (1, State.COMPLETED)


@pytest.mark.spec("engine-25")
async def test_a_cancel_comes_before_a_pause(yard: Yard, tmp_path: Path) -> None:
    async with working(yard):
        handle = await yard.kind("endless_coroutine").enqueue(str(tmp_path))
        await written(tmp_path, "at")
        await pause(yard, handle.id)
        await yard.cancel(handle.id)
        task = await ended(handle)
    assert (task.state, task.reason) == (State.CANCELLED, "operator")


@pytest.mark.spec("engine-25")
async def test_a_checkpoint_inside_a_task_group_pauses_too(yard: Yard) -> None:
    @yard.task()
    async def grouped(ctx: Context) -> str:
        async def part() -> None:
            while not ctx.saved:
                await asyncio.sleep(0.005)
                if ctx.pausing:
                    await ctx.checkpoint("part")

        async with asyncio.TaskGroup() as group:
            group.create_task(part())
        return "went on"

    async with working(yard):
        handle = await grouped.enqueue()
        await running(handle)
        await pause(yard, handle.id)
        assert (await until(handle, State.PAUSED)).charged == 0
        await resume(yard, handle.id)
        assert await handle.result(20) == "went on"


@pytest.mark.spec("engine-25")
async def test_what_a_lost_attempt_has_kept_is_there_for_the_next(yard: Yard) -> None:
    @yard.task()
    async def fragile(ctx: Context) -> object:
        if ctx.saved is None:
            await ctx.checkpoint([1, 2])
            raise ConnectionError("gone")
        return ctx.saved

    async with working(yard):
        handle = await fragile.options(retries=1).enqueue()
        await until(handle, State.PENDING)
        await yard.store.cancel(handle.id, actor="ann")
        await yard.retry(handle.id)
        assert await handle.result(20) == [1, 2]


async def test_a_checkpoint_has_a_size_and_a_form(yard: Yard) -> None:
    @yard.task()
    async def greedy(ctx: Context, size: int) -> None:
        await ctx.checkpoint("x" * size)

    @yard.task()
    async def odd(ctx: Context) -> None:
        await ctx.checkpoint(object())

    async with working(yard):
        await (await greedy.options(retries=0).enqueue(MAX_CHECKPOINT_BYTES - 2)).result(20)
        with pytest.raises(TaskFailed, match=r"1,000,001 bytes, the limit is 1,000,000; store"):
            await (await greedy.options(retries=0).enqueue(MAX_CHECKPOINT_BYTES - 1)).result(20)
        with pytest.raises(TaskFailed, match="a checkpoint is what JSON can hold"):
            await (await odd.options(retries=0).enqueue()).result(20)
