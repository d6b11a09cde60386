"""A task that was lost with its node runs in a process of its own the next time."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from taskyard import Context, Handle, NewTask, Reason, State, Task, TaskQuery, Yard
from taskyard.domain.node import NewNode
from taskyard.engine import suspects
from taskyard.store.port import ClaimRequest
from tests.engine.poison_worker import poison_yard
from tests.engine.waits import found, until, working
from tests.servers.urls import STORES, fresh_url

GOOD = int(os.environ.get("TASKYARD_TEST_GOOD", "40"))
POISON = max(2, GOOD // 10)
LONGEST = 60.0 + GOOD  # seconds: a worker starts in seconds where the machine is busy


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with poison_yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard


async def lost_once(yard: Yard, *tasks: NewTask) -> list[Handle[Any]]:
    """Tasks whose node died under them."""
    await yard.enqueue(*tasks)
    kinds = tuple({task.kind for task in tasks})
    lease = await yard.store.register(NewNode(id="dead", kinds=kinds, slots=len(tasks)))
    claim = await yard.store.claim(ClaimRequest(lease=lease, number=1, room=len(tasks)))
    assert [claimed.id for claimed in claim.tasks] == [task.id for task in tasks]
    await yard.store.rescue([lease], ended=False)
    return [yard.handle(task.id) for task in tasks]


@pytest.mark.spec("engine-22")
@pytest.mark.parametrize("kind", ["where", "where_thread"])
async def test_a_suspect_runs_in_a_process_of_its_own(yard: Yard, kind: str) -> None:
    [suspect] = await lost_once(yard, yard.kind(kind).new())
    async with working(yard):
        attempt, pid = await suspect.result(30)
        fresh, here = await (await yard.kind(kind).enqueue()).result(30)
    assert (attempt, fresh, here) == (2, 1, os.getpid())
    assert pid != os.getpid()
    task = await suspect.task()
    assert (task.losses, task.charged) == (1, 2)


@pytest.mark.spec("engine-22")
async def test_one_that_no_other_process_could_import_runs_in_place_and_that_is_told(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskyard")

    @yard.task()
    async def local(ctx: Context) -> int:
        return os.getpid() + 0 * ctx.attempt

    [suspect] = await lost_once(yard, local.new())
    async with working(yard):
        assert await suspect.result(30) == os.getpid()
    assert "suspects of this kind run beside others" in caplog.text


async def begun(folder: Path) -> list[str]:
    """Which of the gated bodies have, once one has."""
    async with asyncio.timeout(30):
        while not (names := _names(folder)):  # noqa: ASYNC110 - other processes ring no bell
            await asyncio.sleep(0.005)
    return names


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("began-*")]


@pytest.mark.spec("engine-22", "engine-11")
async def test_suspects_wait_for_one_another_but_keep_no_slot_for_long(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "processors", lambda: 1)
    monkeypatch.setattr(suspects, "PATIENCE", 0.1)
    gated = yard.kind("gated")
    handles = await lost_once(yard, *(gated.new(str(tmp_path), n) for n in range(4)))
    async with working(yard):
        [first] = await begun(tmp_path)
        others = [handle for n, handle in enumerate(handles) if first != f"began-{n}"]
        put_off = [await until(handle, State.PENDING) for handle in others]
        assert {(task.reason, task.charged) for task in put_off} == {(Reason.SNOOZED, 1)}
        assert await begun(tmp_path) == [first]
        monkeypatch.setattr(suspects, "PUT_OFF", 0.1)
        (tmp_path / "go").touch()
        assert sorted([await handle.result(30) for handle in handles]) == [0, 1, 2, 3]


@pytest.mark.spec("engine-22", "engine-24", "engine-23")
async def test_a_suspect_in_line_can_be_stopped_and_takes_its_turn(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "processors", lambda: 1)
    monkeypatch.setattr(suspects, "PATIENCE", 600.0)
    gated = yard.kind("gated")
    handles = await lost_once(yard, *(gated.new(str(tmp_path), n) for n in range(4)))
    async with working(yard) as worker:
        [name] = await begun(tmp_path)
        first = handles.pop(int(name[-1]))
        assert all([(await until(handle, State.RUNNING)).attempt == 2 for handle in handles])
        await handles[0].cancel()
        assert (await until(handles[0], State.CANCELLED)).charged == 1
        assert await begun(tmp_path) == [name]
        stopping = asyncio.create_task(worker.stop(grace=60.0))
        given_back = [await until(handle, State.QUEUED) for handle in handles[1:]]
        assert {task.reason for task in given_back} == {Reason.RELEASED}
        (tmp_path / "go").touch()
        await stopping
        assert (await first.task()).state is State.COMPLETED
    async with working(yard):
        assert {await handle.result(30) for handle in handles[1:]} <= {0, 1, 2, 3}


@asynccontextmanager
async def supervised(url: str) -> AsyncIterator[list[int]]:
    """A worker in a process of its own, started again whenever it has died; how it died."""
    deaths: list[int] = []
    present: list[asyncio.subprocess.Process] = []

    async def supervise() -> None:
        while True:
            worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.engine.poison_worker", url
            )
            present[:] = [worker]
            deaths.append(await worker.wait())

    supervisor = asyncio.create_task(supervise())
    try:
        yield deaths
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)
        for worker in present:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()


async def every_task(yard: Yard) -> list[Task]:
    tasks: list[Task] = []
    after: int | None = None
    while page := await yard.find(TaskQuery(limit=500, after=after)):
        tasks += page
        after = page[-1].no
    return tasks


@pytest.mark.spec("engine-22", "reliability-14")
@pytest.mark.parametrize("store", STORES)
async def test_poison_tasks_take_no_good_one_with_them(store: str, tmp_path: Path) -> None:
    url = fresh_url(store, tmp_path)
    async with poison_yard(url) as yard:
        bad = [yard.kind(("exits", "kills_itself")[n % 2]).new() for n in range(POISON)]
        good = [yard.kind(("good", "good_thread")[n % 2]).new(n) for n in range(GOOD)]
        step = GOOD // POISON
        mixed = [t for n in range(POISON) for t in (bad[n], *good[n * step : (n + 1) * step])]
        await yard.enqueue(*mixed)

        async def all_ended() -> bool | None:
            counts = await yard.counts()
            waiting = (State.PENDING, State.QUEUED, State.RUNNING)
            return not any(counts.get(state, 0) for state in waiting) or None

        async with supervised(url) as deaths:
            await found(yard, all_ended, limit=LONGEST)
        tasks = {task.id: task for task in await every_task(yard)}

    ends = {(tasks[task.id].state, tasks[task.id].reason) for task in good}
    assert ends == {(State.COMPLETED, Reason.FINISHED)}
    assert max(tasks[task.id].losses for task in good) <= 1
    ends = {(tasks[task.id].state, tasks[task.id].reason) for task in bad}
    assert ends == {(State.FAILED, Reason.POISON)}
    assert 1 <= len(deaths) <= POISON
