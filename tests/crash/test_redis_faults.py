"""Fault 8: a Redis server that is killed, freezes, forgets, or is told to forget its scripts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from taskyard import NewTask, State
from taskyard.domain.errors import NotFound, StaleAttempt, StoreError
from taskyard.domain.lane import LaneChange
from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.state import Reason
from taskyard.domain.task import Progress
from tests.conformance.verbs import enqueued, finish, new, node, running, seen, succeeded
from tests.crash.conftest import Stage
from tests.crash.enqueuer import insist
from tests.crash.record import What
from tests.crash.scene import Scene
from tests.servers.redis import RedisServer

Start = Callable[..., RedisServer]
NOTHING = ("--appendonly", "no")


@pytest.fixture
def start() -> Iterator[Start]:
    servers: list[RedisServer] = []

    def start(*options: str) -> RedisServer:
        server = RedisServer(*options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.remove()


@contextmanager
def lost_last_second(server: RedisServer) -> Iterator[None]:
    """As if the machine had crashed before it wrote to its disk what is said meanwhile."""
    # At other times the file may be behind what was answered.
    with Redis(port=server.port) as admin:
        admin.config_set("appendfsync", "always")
    file = max(server.folder.rglob("*.aof"), key=lambda file: file.stat().st_mtime_ns)
    size = file.stat().st_size
    yield
    server.stop(signal.SIGKILL)
    os.truncate(file, size)
    server.start()


async def save_until(scene: Scene, enough: asyncio.Event) -> list[str]:
    """One after the other; what was acknowledged before the server fell silent."""
    ids: list[str] = []

    def task() -> NewTask:
        return scene.kinds.quick.new([], "default")

    try:
        while True:
            ids.append(await scene.enqueue_one(task()))
            if len(ids) == 50:
                enough.set()
    except StoreError:
        return ids


@pytest.mark.spec("reliability-8", "engine-18")
@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_a_killed_server_loses_nothing_that_was_acknowledged(
    start: Start, stage: Stage, fsync: str
) -> None:
    """`everysec` may lose the last second of a machine, but not of a process: what was answered
    has been handed to the system before.
    """
    server = start("--appendfsync", fsync)
    async with stage(server.url) as scene:
        scene.lease = 30.0
        scene.worker("a")
        held = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
        scene.started(held)
        enough = asyncio.Event()
        saving = asyncio.create_task(save_until(scene, enough))
        await enough.wait()

        await asyncio.to_thread(server.stop, signal.SIGKILL)
        saved = await saving
        server.start()
        scene.open_gate()

        tasks = await scene.all_ended(held, *saved)
        assert {(task.state, task.losses) for task in tasks} == {(State.COMPLETED, 0)}
        assert tasks[0].attempt == 1
        assert await scene.broken() == []


@pytest.mark.spec("reliability-8", "engine-30")
async def test_a_flush_of_the_scripts_under_load_costs_nothing(start: Start, stage: Stage) -> None:
    server = start()
    async with stage(server.url) as scene:
        scene.lease = 60  # a machine that stands still for some seconds takes nothing back
        ids = await scene.enqueue(*(scene.kinds.quick.new([], "default") for _ in range(300)))
        for name in ("a", "b"):
            scene.worker(name)
        ended = asyncio.create_task(scene.all_ended(*ids))
        with Redis(port=server.port) as admin:
            while not ended.done():
                admin.script_flush()
                await asyncio.sleep(0.005)

        # What was claimed ahead and could not start in time is given back: nobody is charged.
        found = {(task.state, task.charged, task.losses) for task in await ended}
        assert found == {(State.COMPLETED, 1, 0)}
        assert await scene.broken() == []


@pytest.mark.spec("reliability-8", "engine-18", "engine-19")
async def test_a_server_that_forgot_everything_is_noticed(start: Start, stage: Stage) -> None:
    """The worker stops what it runs for a task that is no more, and works on under a new lease."""
    server = start(*NOTHING)
    async with stage(server.url) as scene:
        worker = scene.worker("a")
        gone = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
        scene.started(gone)

        server.stop(signal.SIGKILL)
        server.start()

        end = await asyncio.to_thread(scene.crew.await_line, What.END, task=gone)
        assert end.how == "CancelledError"
        with pytest.raises(NotFound):
            await scene.yard.get(gone)
        task = scene.kinds.quick.new([], "default")
        await insist(lambda: scene.yard.enqueue(task))
        assert (await scene.ended(task.id)).state is State.COMPLETED
        assert worker.alive
        assert [line.how for line in scene.crew.find(What.END, task=gone)] == ["CancelledError"]


@pytest.mark.spec("reliability-8", "engine-19")
async def test_nothing_of_a_forgotten_life_is_believed(start: Start, stage: Stage) -> None:
    """The same id enqueued again is another task: what its forgotten twin did counts no more."""
    server = start(*NOTHING)
    async with stage(server.url) as scene:
        store = scene.store
        worker = await node(store)
        old = await running(store, worker)
        server.stop(signal.SIGKILL)
        server.start()
        await insist(store.now)

        again = await enqueued(store, id=old.id)
        newer = await node(store, "node-b")
        current = await newer.claim_one()

        assert current.id == again
        assert await finish(store, succeeded(old)) == [Stale(old.no, old.attempt)]
        assert not await store.report(old.hold, Progress(1.0, 1.0))
        assert (await seen(store, current.id)).state is State.RUNNING
        assert worker.beat().lost


@pytest.mark.spec("reliability-8", "engine-19")
async def test_a_server_that_lost_its_last_second_believes_no_lost_attempt(
    start: Start, stage: Stage
) -> None:
    """The claim is forgotten and the task is not: its next attempt must not look like the last."""
    server = start("--appendfsync", "everysec")
    async with stage(server.url) as scene:
        store = scene.store
        before, after = await node(store, "before"), await node(store, "after")
        await enqueued(store)
        with lost_last_second(server):
            forgotten = await before.claim_one()
        await insist(store.now)

        current = await after.claim_one()

        assert current.id == forgotten.id
        stale = [Stale(forgotten.no, forgotten.attempt)]
        assert (current.attempt, current.lease) == (forgotten.attempt, after.lease)
        assert await finish(store, succeeded(forgotten)) == stale
        assert not await store.report(forgotten.hold, Progress(1.0, 1.0))
        with pytest.raises(StaleAttempt):
            await store.enqueue([new()], by=forgotten.hold)
        assert (await seen(store, current.id)).state is State.RUNNING
        assert await finish(store, succeeded(current)) == [Finished(current.no, State.COMPLETED)]


@pytest.mark.spec("reliability-8", "engine-19", "engine-20")
async def test_a_forgotten_lease_is_given_to_nobody_else(start: Start, stage: Stage) -> None:
    """Nor to a node of the same name: it would take its predecessor's answers for its own."""
    server = start("--appendfsync", "everysec")
    async with stage(server.url) as scene:
        store = scene.store
        await enqueued(store)
        with lost_last_second(server):
            forgotten = await node(store)
            lost = await forgotten.claim_one()
        await insist(store.now)

        again = await node(store)
        current = await again.claim_one()

        assert again.lease > forgotten.lease
        assert forgotten.beat().lost
        assert (lost.no, lost.attempt) == (current.no, current.attempt)
        assert await finish(store, succeeded(lost)) == [Stale(lost.no, lost.attempt)]
        assert await finish(store, succeeded(current)) == [Finished(current.no, State.COMPLETED)]


@pytest.mark.spec("reliability-8", "engine-19")
async def test_a_worker_that_is_given_again_what_it_runs_begins_no_second_body(
    start: Start, stage: Stage
) -> None:
    """The claim is forgotten, its body does not stop: the task waits until it has gone."""
    server = start("--appendfsync", "everysec")
    async with stage(server.url) as scene:
        scene.lease = 10.0  # the server comes back before it ends
        store = scene.store
        scene.worker("a")
        await store.set_lane("default", LaneChange(paused=True), actor="ann")
        task_id = await scene.enqueue_one(scene.kinds.stubborn.new(str(scene.gate)))
        with lost_last_second(server):
            await store.set_lane("default", LaneChange(paused=False), actor="ann")
            scene.started(task_id)
        await asyncio.to_thread(scene.crew.await_line, What.NOTE, task=task_id)

        resume = LaneChange(paused=False)
        await insist(lambda: store.set_lane("default", resume, actor="ann"))
        await scene.until(task_id, lambda task: task.reason is Reason.SNOOZED)
        assert len(scene.crew.find(What.START, task=task_id)) == 1
        scene.open_gate()

        task = await scene.ended(task_id)
        assert (task.state, task.charged, task.losses) == (State.COMPLETED, 1, 0)
        assert len(scene.crew.find(What.START, task=task_id)) == 2
        assert await scene.broken() == []


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def steady(scene: Scene) -> None:
    """Everybody has been in contact for more than a full lease."""
    await asyncio.sleep(scene.lease + 1.0)


@pytest.mark.spec("reliability-8", "engine-20")
async def test_a_server_frozen_for_longer_than_a_lease_lets_nobody_be_rescued(
    start: Start, stage: Stage
) -> None:
    """Bodies are stopped before their lease ends and run again, uncharged and from their place; but
    nobody is taken for dead: see the same test of PostgreSQL.
    """
    server = start()
    async with stage(server.url) as scene:
        scene.lease = 4.0
        members = [scene.worker(name) for name in ("a", "b")]
        ids = await scene.enqueue(
            *(scene.kinds.gated.new(str(scene.gate), []) for _ in range(6)),
        )
        for task_id in ids:
            scene.started(task_id)
        await steady(scene)

        with frozen(server):
            for task_id in ids:
                scene.crew.await_line(What.END, task=task_id, attempt=1)
            await asyncio.sleep(scene.lease)
        for task_id in ids:
            scene.started(task_id, 2)
        await steady(scene)  # rescuers look every second
        scene.open_gate()

        tasks = await scene.all_ended(*ids)
        assert {(task.state, task.charged, task.losses) for task in tasks} == {
            (State.COMPLETED, 1, 0)
        }
        actions = {line.action for line in await scene.store.audit(limit=1000)}
        assert not actions & {"rescued", "rescue", "lost"}
        assert all(member.alive for member in members)
        assert await scene.broken() == []
