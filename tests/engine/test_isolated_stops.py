"""Isolated bodies can be stopped, and nothing that they have started is left behind."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from taskyard import Reason, State, Yard
from taskyard.engine.isolate.messages import Begin, Message
from taskyard.engine.isolate.process import Process
from taskyard.engine.job import Stop
from tests.engine.isolated import (
    alive,
    all_gone,
    body_of,
    family_of,
    isolated_yard,
    other_worker,
    written,
)
from tests.engine.waits import ended, found, until, working

GRACE = 0.4  # seconds; that of the worker bounds the patience with each body


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with isolated_yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard


@pytest.mark.spec("lifecycle-11", "reliability-6")
@pytest.mark.parametrize("kind", ["deaf", "deaf_async"])
async def test_a_body_that_ignores_everything_is_killed_at_its_timeout(
    yard: Yard, tmp_path: Path, kind: str
) -> None:
    async with working(yard, grace=GRACE) as worker:
        handle = await yard.kind(kind).enqueue(str(tmp_path))
        body = await body_of(tmp_path)
        [job] = worker.hand.running.values()
        job.deadline = time.monotonic()  # now that it is deaf
        worker._timekeeper._look()
        task = await ended(handle)
        assert not alive([body])
    assert (task.state, task.reason) == (State.FAILED, Reason.TIMEOUT)
    assert (task.charged, task.losses) == (1, 0)


@pytest.mark.spec("lifecycle-11", "engine-23")
@pytest.mark.parametrize(
    ("kind", "trace"),
    [("looking", "seen"), ("sleeping", "cleaned"), ("sleeping_async", "cleaned")],
)
async def test_a_body_that_is_cancelled_can_clean_up(
    yard: Yard, tmp_path: Path, kind: str, trace: str
) -> None:
    async with working(yard):
        handle = await yard.kind(kind).enqueue(folder=str(tmp_path))
        body = await body_of(tmp_path)
        await handle.cancel()
        task = await ended(handle)
        assert (tmp_path / trace).read_text() == str(body.pid)
    assert (task.state, task.reason) == (State.CANCELLED, Reason.OPERATOR)


@pytest.mark.spec("lifecycle-11")
async def test_a_body_that_ignores_its_cancellation_is_killed(yard: Yard, tmp_path: Path) -> None:
    async with working(yard, grace=GRACE):
        handle = await yard.kind("deaf").enqueue(str(tmp_path))
        body = await body_of(tmp_path)
        await handle.cancel()
        task = await ended(handle)
        assert not alive([body])
    assert task.state is State.CANCELLED


@pytest.mark.spec("engine-24")
async def test_a_drain_kills_and_gives_back(yard: Yard, tmp_path: Path) -> None:
    async with working(yard, grace=GRACE):
        handle = await yard.kind("deaf").enqueue(str(tmp_path))
        body = await body_of(tmp_path)
    assert not alive([body])
    task = await handle.task()
    assert (task.state, task.reason) == (State.QUEUED, Reason.RELEASED)
    assert (task.charged, task.losses) == (0, 0)


@pytest.mark.spec("engine-19")
async def test_an_attempt_that_no_longer_counts_is_killed_at_once(
    yard: Yard, tmp_path: Path
) -> None:
    async with working(yard, grace=600.0) as worker:
        handle = await yard.kind("deaf").enqueue(str(tmp_path))
        body = await body_of(tmp_path)
        [job] = worker.hand.running.values()
        job.ask(Stop.LOST)
        assert await all_gone([body])
        assert (await handle.task()).state is State.RUNNING  # nothing of it was written


@pytest.mark.spec("engine-23", "lifecycle-11")
@pytest.mark.parametrize("kind", ["sleeping", "sleeping_async"])
@pytest.mark.parametrize("stop", [Stop.CANCEL, Stop.TIMEOUT])
async def test_a_body_whose_child_hears_job_and_stop_at_once_does_not_begin(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, stop: Stop
) -> None:
    send, begun = Process._send, asyncio.Event()

    def sent(process: Process, message: Message) -> None:
        send(process, message)
        if isinstance(message, Begin):
            begun.set()

    monkeypatch.setattr(Process, "_send", sent)
    async with working(yard) as worker:
        link = worker._bodies.processes._link
        assert link is not None
        keeper = psutil.Process(link._keeper.pid)
        keeper.suspend()  # the child comes when both messages wait for it
        try:
            handle = await yard.kind(kind).enqueue(folder=str(tmp_path))
            await begun.wait()
            [job] = worker.hand.running.values()
            job.ask(stop)
        finally:
            keeper.resume()
        task = await ended(handle)
    wanted = (Reason.OPERATOR, 0) if stop is Stop.CANCEL else (Reason.TIMEOUT, 1)
    assert (task.reason, task.charged, task.attempt) == (*wanted, 1)
    assert not (tmp_path / "pid").exists()


# --- descendants ---


@pytest.mark.spec("lifecycle-11", "lifecycle-12")
@pytest.mark.parametrize(
    ("then", "state"),
    [("return", State.COMPLETED), ("die", State.FAILED), ("hang", State.CANCELLED)],
)
async def test_whatever_a_body_has_started_is_gone_when_its_task_has_ended(
    yard: Yard, tmp_path: Path, then: str, state: State
) -> None:
    async with working(yard, grace=GRACE):
        handle = await yard.kind("with_family").enqueue(str(tmp_path), then)
        if then == "hang":
            family = await family_of(tmp_path)
            assert len(alive(family)) == 5
            await handle.cancel()
            task = await ended(handle)
            assert alive(family) == []
        else:
            task = await ended(handle)
            pids = psutil.pids()
            assert [
                pid for pid in json.loads(await written(tmp_path, "family")) if pid in pids
            ] == []
    assert task.state is state


@pytest.mark.spec("lifecycle-12")
async def test_the_processes_of_a_neighbour_are_left_alone(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with working(yard, grace=GRACE):
        first = await yard.kind("with_family").enqueue(str(tmp_path / "a"), "hang")
        second = await yard.kind("with_family").enqueue(str(tmp_path / "b"), "hang")
        ours, theirs = await family_of(tmp_path / "a"), await family_of(tmp_path / "b")
        await first.cancel()
        await ended(first)
        assert (len(alive(ours)), len(alive(theirs))) == (0, 5)
        await second.cancel()
        await ended(second)
        assert alive(theirs) == []


# --- the end of the worker ---


@pytest.mark.spec("engine-19", "reliability-1")
async def test_nothing_outlives_a_worker_that_is_killed(yard: Yard, tmp_path: Path) -> None:
    with other_worker(yard) as worker:
        handle = await yard.kind("with_family").options(retries=1).enqueue(str(tmp_path), "hang")
        family = await family_of(tmp_path)
        keeper = family[0].parent()
        assert keeper is not None
        worker.kill()
        assert await all_gone([keeper, *family])
    (tmp_path / "family").unlink()
    async with working(yard, grace=GRACE):  # proves the dead one dead
        await family_of(tmp_path)
        assert (await handle.task()).attempt == 2


@pytest.mark.spec("engine-19")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills at the end of a pipe")
async def test_the_kernel_kills_bodies_with_their_worker_also_when_the_keeper_cannot(
    yard: Yard, tmp_path: Path
) -> None:
    with other_worker(yard) as worker:
        await yard.kind("with_family").enqueue(str(tmp_path), "hang")
        body, near, *detached = await family_of(tmp_path)
        keeper = body.parent()
        assert keeper is not None
        keeper.suspend()
        try:
            worker.kill()
            assert await all_gone([body, near])
            assert alive(detached) == detached  # these are the keeper's to find
        finally:
            keeper.resume()
        assert await all_gone([keeper, *detached])


@pytest.mark.spec("engine-19", "reliability-3")
async def test_bodies_do_not_outlive_the_lease_of_a_worker_that_is_frozen(
    yard: Yard, tmp_path: Path
) -> None:
    with other_worker(yard, lease=6.0) as worker:
        handle = await yard.kind("with_family").options(retries=1).enqueue(str(tmp_path), "hang")
        family = await family_of(tmp_path)
        worker.send_signal(signal.SIGSTOP)
        assert await all_gone(family)
        (tmp_path / "family").unlink()

        async def lease_ended() -> bool | None:
            return all(node.lease_left <= 0 for node in await yard.nodes()) or None

        await found(yard, lease_ended)
        await yard.store.rescue()
        async with working(yard, grace=GRACE, kinds=["with_family"]):
            again = await family_of(tmp_path)
            task = await handle.task()
            assert task.attempt == 2
            worker.send_signal(signal.SIGCONT)
            assert len(alive(again)) == 5


@pytest.mark.spec("engine-19")
async def test_when_the_keeper_is_killed_its_bodies_die_and_their_tasks_go_on(
    yard: Yard, tmp_path: Path
) -> None:
    async with working(yard, grace=GRACE):
        handle = await yard.kind("with_family").enqueue(str(tmp_path), "hang")
        body, near, *detached = await family_of(tmp_path)
        (tmp_path / "family").unlink()
        keeper = body.parent()
        assert keeper is not None
        keeper.kill()
        assert await all_gone([body, near])
        for process in alive(detached):
            process.kill()  # nobody else will: the one who knew of them is dead
        again = await family_of(tmp_path)
        task = await until(handle, State.RUNNING)
        assert (task.attempt, task.charged, task.losses) == (2, 0, 0)
        assert again[0].parent() != keeper
    assert alive(again) == []
