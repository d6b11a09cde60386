"""Fault 7: a PostgreSQL server that is killed, stopped, loses its backends or freezes."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import asyncpg
import psutil
import pytest

from taskyard import State, TaskQuery
from taskyard.domain.errors import StoreFull
from taskyard.domain.outcome import Finished
from taskyard.store.postgres.queries import schema_name
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, node, running, succeeded
from tests.crash.conftest import Stage
from tests.crash.crew import PATIENCE, wait_for
from tests.crash.record import What
from tests.crash.scene import Scene
from tests.servers.postgres import PostgresServer

BLOCKED = """SELECT count(*) FROM pg_stat_activity
              WHERE wait_event_type = 'Lock' AND query ILIKE '%.forget_node(%'"""
LOG_SEGMENT = 16 * 1024 * 1024  # bytes: every segment of the log has this size from the beginning
OTHERS = """SELECT pid FROM pg_stat_activity
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""


@asynccontextmanager
async def admin(server: PostgresServer) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of our own, beside the store's."""
    connection = await asyncpg.connect(server.url)
    try:
        yield connection
    finally:
        connection.terminate()


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """The server and all its processes: it can make no new ones meanwhile."""
    postmaster = psutil.Process(server.pid)
    os.kill(server.pid, signal.SIGSTOP)
    wait_for(lambda: postmaster.status() == psutil.STATUS_STOPPED, "the server to freeze")
    family = postmaster.children()
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in (*family, postmaster):
            process.resume()


@pytest.mark.spec("reliability-7", "engine-18", "engine-19")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGQUIT])
async def test_a_server_that_dies_and_comes_back_costs_nothing(
    postgres: PostgresServer, postgres_url: str, stage: Stage, how: signal.Signals
) -> None:
    """It is back within the lease: bodies that ran meanwhile end as if nothing had been."""
    async with stage(postgres_url) as scene:
        scene.lease = 30.0
        scene.worker("a")
        held = await scene.enqueue(
            *(scene.kinds.gated.new(str(scene.gate), []) for _ in range(4)),
        )
        for task_id in held:
            scene.started(task_id)
        more = await scene.enqueue(*(scene.kinds.quick.new([], "default") for _ in range(50)))

        postgres.stop(how)
        scene.open_gate()
        for task_id in held:
            scene.crew.await_line(What.END, task=task_id)
        postgres.start()

        tasks = await scene.all_ended(*held, *more)
        assert {(task.state, task.losses) for task in tasks} == {(State.COMPLETED, 0)}
        assert {task.attempt for task in tasks[: len(held)]} == {1}
        assert await scene.broken() == []


@pytest.mark.spec("reliability-7", "engine-18", "engine-20")
async def test_a_server_stopped_while_rescuing_rescues_once(
    postgres: PostgresServer, postgres_url: str, stage: Stage
) -> None:
    async with stage(postgres_url) as scene:
        schema = schema_name(postgres_url.rpartition("=")[2])
        scene.worker("rescuer", "quick", lease=30.0)
        victim = scene.worker("victim", "gated", lease=30.0)
        ids = await scene.enqueue(
            *(scene.kinds.gated.new(str(scene.gate), []) for _ in range(5)),
        )
        for task_id in ids:
            scene.started(task_id)

        async with admin(postgres) as blocker, admin(postgres) as watcher:
            await blocker.execute("BEGIN")
            await blocker.execute(f'LOCK TABLE "{schema}".running IN SHARE MODE')
            victim.kill()
            await _until(watcher, BLOCKED)
            postgres.stop(signal.SIGQUIT)
        postgres.start()
        scene.open_gate()
        scene.worker("second", "gated")

        tasks = await scene.all_ended(*ids)
        found = {(task.state, task.attempt, task.losses) for task in tasks}
        assert found == {(State.COMPLETED, 2, 1)}
        assert await scene.broken() == []


@pytest.mark.spec("reliability-7", "engine-18", "engine-19")
async def test_backends_terminated_at_random_break_no_promise(
    postgres: PostgresServer, postgres_url: str, stage: Stage
) -> None:
    async with stage(postgres_url) as scene:
        scene.lease = 10.0
        dice = random.Random(7)
        kinds = scene.kinds
        ids = await scene.enqueue(
            *(kinds.slow.new([], "default", 0.02) for _ in range(450)),
            *(kinds.slow.options(key="k").new(["k"], "default", 0.01) for _ in range(20)),
            *(kinds.flaky.new([], "default", 1) for _ in range(10)),
        )
        for name in ("a", "b"):
            scene.worker(name, slots=3)

        ended = asyncio.create_task(scene.all_ended(*ids))
        terminated = 0
        async with admin(postgres) as connection:
            while not ended.done():
                victims = [row["pid"] for row in await connection.fetch(OTHERS)]
                if victims:
                    victim = dice.choice(victims)
                    terminated += await connection.fetchval(
                        "SELECT pg_terminate_backend($1)::int", victim
                    )
                await asyncio.sleep(0.05)

        assert {(task.state, task.losses) for task in await ended} == {(State.COMPLETED, 0)}
        assert terminated > 5
        assert await scene.broken() == []


@pytest.mark.spec("reliability-7", "engine-20")
async def test_a_server_frozen_for_longer_than_a_lease_lets_nobody_be_rescued(
    postgres: PostgresServer, postgres_url: str, stage: Stage
) -> None:
    """Every lease ends by the server's clock, and no worker could renew its own.

    A worker cannot know that it is the server that stands still and not the way to it, so it
    stops its bodies before its lease ends: they run again, uncharged and from their place. But
    nobody is taken for dead: whoever rescues has had no contact for a lease itself, and the
    others have renewed before it has.
    """
    async with stage(postgres_url) as scene:
        scene.lease = 4.0
        members = [scene.worker(name) for name in ("a", "b")]
        ids = await scene.enqueue(
            *(scene.kinds.gated.new(str(scene.gate), []) for _ in range(6)),
        )
        for task_id in ids:
            scene.started(task_id)
        await _steady(scene)

        with frozen(postgres):
            for task_id in ids:
                scene.crew.await_line(What.END, task=task_id, attempt=1)
            await asyncio.sleep(scene.lease)
        for task_id in ids:
            scene.started(task_id, 2)
        await _steady(scene)  # rescuers look every second
        scene.open_gate()

        tasks = await scene.all_ended(*ids)
        assert {(task.state, task.charged, task.losses) for task in tasks} == {
            (State.COMPLETED, 1, 0)
        }
        actions = {line.action for line in await scene.store.audit(limit=1000)}
        assert not actions & {"rescued", "rescue", "lost"}
        assert all(member.alive for member in members)
        assert await scene.broken() == []


@contextmanager
def without_room(server: PostgresServer) -> Iterator[None]:
    server.limit_files(LOG_SEGMENT)
    try:
        yield
    finally:
        server.limit_files(resource.RLIM_INFINITY)


@pytest.mark.spec("reliability-13", "engine-18", "engine-29")
async def test_a_full_disk_is_a_clear_error_and_loses_nothing(
    postgres: PostgresServer, postgres_url: str
) -> None:
    store = open_store(postgres_url)
    await store.open()
    worker = await node(store)
    task = await running(store, worker)
    dice = random.Random(13)
    saved: list[str] = []

    async def fill() -> None:
        while True:
            payload = f'"{dice.randbytes(450_000).hex()}"'
            saved.append(await enqueued(store, payload=payload))

    with without_room(postgres):
        with pytest.raises(StoreFull, match="no room left on the disk"):
            await fill()
        with pytest.raises(StoreFull, match="nothing was saved"):
            await fill()
        assert not worker.beat().lost
        assert await worker.holds()
        assert (await store.counts())[State.QUEUED] == len(saved)
        assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]
    saved.append(await enqueued(store))

    found = [task.id for task in await store.find(TaskQuery(state=State.QUEUED, limit=1000))]
    assert sorted(found) == sorted(saved)
    await store.close()


async def _steady(scene: Scene) -> None:
    """Everybody has been in contact for more than a full lease."""
    await asyncio.sleep(scene.lease + 1.0)


async def _until(connection: asyncpg.Connection[asyncpg.Record], question: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await connection.fetchval(question):  # noqa: ASYNC110 - others make it true
            await asyncio.sleep(0.01)
