"""`ctx.resource`: made once per worker, shared, closed when the worker stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskyard import Context, TaskFailed, Yard
from tests.engine.waits import working
from tests.yard import kinds

pytestmark = pytest.mark.spec("engine-33", "lifecycle-14")


async def test_bodies_of_one_worker_share_it(yard: Yard) -> None:
    lines: list[str] = []

    @yard.resource
    async def http() -> AsyncIterator[dict[str, asyncio.AbstractEventLoop]]:
        lines.append("open http")
        yield {"loop": asyncio.get_running_loop()}
        lines.append("close http")

    @yard.resource
    def disk() -> Iterator[threading.Lock]:
        lines.append("open disk")
        yield threading.Lock()
        lines.append("close disk")

    seen: set[int] = set()

    @yard.task()
    async def on_the_loop(ctx: Context) -> bool:
        pool = await ctx.resource(http)
        seen.update((id(pool), id(await ctx.resource(disk))))
        return pool["loop"] is asyncio.get_running_loop()

    @yard.task()
    def in_a_thread(ctx: Context) -> bool:
        with ctx.resource_blocking(disk) as lock:
            seen.update((id(ctx.resource_blocking(http)), id(ctx.resource_blocking(disk))))
            return lock

    async with working(yard) as first:
        handles = [await kind.enqueue() for kind in (on_the_loop, in_a_thread) * 5]
        assert lines == [] or lines[0].startswith("open")
        assert all([await handle.result(20) for handle in handles])
        assert sorted(lines) == ["open disk", "open http"]
        assert len(seen) == 2
        opened = list(lines)
        await first.stop()
    closed = [line.replace("open", "close") for line in reversed(opened)]
    assert lines == [*opened, *closed]
    async with working(yard):
        assert await (await on_the_loop.enqueue()).result(20)
    assert lines.count("open http") == 2, "another worker makes its own"


async def test_one_that_cannot_be_made_is_the_error_of_the_body(yard: Yard) -> None:
    @yard.resource
    async def http() -> AsyncIterator[None]:
        if threading.active_count():
            raise PermissionError("no network here")
        yield

    @yard.task()
    async def download(ctx: Context) -> None:
        await ctx.resource(http)

    async with working(yard):
        with pytest.raises(TaskFailed, match="no network here"):
            await (await download.options(retries=0).enqueue()).result(20)


async def test_a_body_that_times_out_does_not_take_it_along(yard: Yard) -> None:
    may_open = asyncio.Event()
    made = 0

    @yard.resource
    async def slow() -> AsyncIterator[int]:
        nonlocal made
        made += 1
        await may_open.wait()
        yield made

    @yard.task()
    async def use(ctx: Context) -> int:
        return await ctx.resource(slow)

    async with working(yard):
        impatient = await use.options(timeout=0.05, retries=0).enqueue()
        with pytest.raises(TaskFailed, match="longer than"):
            await impatient.result(20)
        patient = await use.enqueue()
        may_open.set()
        assert await patient.result(20) == 1


@pytest.mark.parametrize("kind", [kinds.with_pool, kinds.with_files])
async def test_a_process_of_its_own_makes_its_own_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.setenv("TASKYARD_TEST_NOTES", str(tmp_path))
    at = Yard(f"sqlite:///{tmp_path / 'yard.db'}")
    async with kinds.added_to(at) as yard, working(yard, slots=1, kinds=[kind.name]):
        answers = [await yard.handle(await _enqueue(yard, kind)).result(20) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    pids = {line.split()[-1] for line in answers[0]}
    assert len(pids) == 1
    notes = (tmp_path / "notes").read_text().splitlines()
    assert [note for note in notes if note.startswith("open")] == [
        f"open pool {pids.copy().pop()}",
        f"open files {pids.copy().pop()}",
    ]


async def _enqueue(yard: Yard, kind: Any) -> str:
    task = kind.new()
    await yard.enqueue(task)
    return str(task.id)
