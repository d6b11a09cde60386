"""Fault 13: no room to write, or another program in the way; then it is over, and work goes on."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest
from redis import Redis

from taskyard import State
from taskyard.domain.clock import micros
from taskyard.domain.errors import StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable
from taskyard.domain.task import TaskQuery
from taskyard.store.port import Store
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, node, running, succeeded
from tests.crash.conftest import Stage
from tests.crash.crew import Member, wait_for
from tests.crash.record import What
from tests.crash.scene import Scene
from tests.servers.redis import RedisServer
from tests.store.power_cut import PLAIN_DISK

SMALL = 32 * 1024  # bytes: the record is smaller, the WAL is larger


class FullDisk(apsw.VFS):
    """The default file system of SQLite; without room while `full` is set."""

    def __init__(self) -> None:
        self.full = False
        super().__init__("full-disk", PLAIN_DISK, makedefault=True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _FullFile(self, name, flags)


class _FullFile(apsw.VFSFile):
    def __init__(
        self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__(PLAIN_DISK, name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._disk.full:
            raise apsw.FullError("no room")
        super().xWrite(data, offset)


@pytest.fixture
def disk() -> Iterator[FullDisk]:
    made = FullDisk()
    yield made
    made.unregister()


@contextmanager
def without_room(process: Member | RedisServer, most: int = SMALL) -> Iterator[None]:
    """Files of this process may not grow beyond that, as with a quota that is used up."""
    pid = process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it may have ended of that
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


LOCKER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_by_another(file: Path) -> Iterator[None]:
    """By a process of its own: SQLite's locks keep processes apart, not two libraries in one."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield
        other.communicate()


def logged(scene: Scene, text: str) -> None:
    """Wait until a worker has said so."""
    log = scene.crew.folder / "worker.log"
    wait_for(lambda: log.exists() and text in log.read_text(), f"{text!r} in the log")


async def held(scene: Scene) -> tuple[Member, str]:
    """A worker with a body that waits for the gate."""
    scene.lease = 20.0
    member = scene.worker("a")
    task_id = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
    scene.started(task_id)
    return member, task_id


async def finishes_at_once(scene: Scene, member: Member, task_id: str) -> None:
    """What had ended meanwhile is written, and new tasks run."""
    task = await scene.ended(task_id)
    assert (task.state, task.attempt, task.losses) == (State.COMPLETED, 1, 0)
    await scene.ended(await scene.enqueue_one(scene.kinds.quick.new([], "default")))
    assert member.alive
    assert await scene.broken() == []


@pytest.mark.spec("reliability-13")
async def test_a_worker_goes_on_when_its_disk_has_room_again(scene: Scene) -> None:
    member, task_id = await held(scene)
    assert (scene.crew.folder / "yard.db-wal").stat().st_size > SMALL

    with without_room(member):
        scene.open_gate()
        scene.crew.await_line(What.END, task=task_id)
        await asyncio.to_thread(logged, scene, "writing")

    await finishes_at_once(scene, member, task_id)


@pytest.mark.spec("reliability-13")
async def test_a_worker_goes_on_when_another_program_lets_go_of_the_file(scene: Scene) -> None:
    member, task_id = await held(scene)
    file = scene.crew.folder / "yard.db"
    impatient = SqliteStore(str(file), busy_seconds=0.1)
    await impatient.open()

    with locked_by_another(file):
        with pytest.raises(StoreBusy, match="locked by another program"):
            await enqueued(impatient, "quick")
        scene.open_gate()
        scene.crew.await_line(What.END, task=task_id)
    await impatient.close()

    await finishes_at_once(scene, member, task_id)


@pytest.mark.spec("reliability-13", "engine-18")
async def test_a_full_disk_is_a_clear_error_and_loses_nothing(
    tmp_path: Path, disk: FullDisk
) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))
    await store.open()
    worker = await node(store)
    task = await running(store, worker)

    disk.full = True
    with pytest.raises(StoreFull, match="no room left"):
        await enqueued(store)
    with pytest.raises(StoreFull, match="no room left"):
        await finish(store, succeeded(task))
    with pytest.raises(StoreFull, match="no room left"):
        worker.beat()
    assert (await store.counts())[State.RUNNING] == 1
    disk.full = False

    assert not worker.beat().lost
    assert await worker.holds()
    await finish(store, succeeded(task))
    await enqueued(store)
    assert (await store.counts())[State.COMPLETED] == 1
    await store.close()


@pytest.mark.spec("reliability-13", "engine-20", "engine-30")
async def test_a_redis_server_without_memory_costs_no_lease(stage: Stage) -> None:
    """Nothing new comes in; what is there begins, ends and is written."""
    server = RedisServer()
    server.start()
    try:
        async with stage(server.url) as scene:
            scene.lease = 6.0
            member = scene.worker("a", slots=1)
            gated = scene.kinds.gated.new(str(scene.gate), [])
            quick = scene.kinds.quick.new([], "default")
            runs, waits = await scene.enqueue(gated, quick)
            scene.started(runs)
            registered = await scene.node("a")
            assert registered is not None
            with Redis(port=server.port) as admin:
                admin.config_set("maxmemory", 1)
                with pytest.raises(StoreFull, match="used up its memory"):
                    await scene.enqueue_one(scene.kinds.quick.new([], "default"))
                ends = registered.seen_at + micros(registered.lease_seconds)
                await scene.node_until("a", lambda node: node is not None and node.seen_at > ends)
                scene.open_gate()
                tasks = await scene.all_ended(runs, waits)
                admin.config_set("maxmemory", 0)

            found = {(task.state, task.attempt, task.charged, task.losses) for task in tasks}
            assert found == {(State.COMPLETED, 1, 1, 0)}
            assert member.alive
            assert await scene.broken() == []
    finally:
        server.remove()


def log_size(server: RedisServer) -> int:
    """Bytes of the append-only file that grows."""
    file = max(server.folder.rglob("*.aof"), key=lambda file: file.stat().st_mtime_ns)
    return file.stat().st_size


async def save_on_and_on(store: Store, saved: list[str]) -> None:
    while True:
        saved.append(await enqueued(store))


@pytest.mark.spec("reliability-13", "engine-18", "engine-30")
async def test_a_redis_server_whose_disk_is_full_refuses_writes_and_goes_on() -> None:
    """With appendfsync everysec: what was acknowledged is written when there is room."""
    server = RedisServer("--appendfsync", "everysec")
    server.start()
    store = open_store(server.url)
    try:
        worker = await node(store)
        task = await running(store, worker)
        saved = [task.id]
        with without_room(server, log_size(server)):
            with pytest.raises(StoreReadOnly, match="cannot save its data to disk"):
                await save_on_and_on(store, saved)
            with pytest.raises(StoreReadOnly, match="cannot save its data to disk"):
                await finish(store, succeeded(task))
            with pytest.raises(StoreReadOnly, match="cannot save its data to disk"):
                worker.beat()
            assert (await store.counts())[State.RUNNING] == 1

        before = len(saved)
        async with asyncio.timeout(20):
            while len(saved) == before:
                with suppress(StoreReadOnly):
                    saved.append(await enqueued(store))
        assert not worker.beat().lost
        await finish(store, succeeded(task))
        server.stop(signal.SIGKILL)
        server.start()
        assert {found.id for found in await store.find(TaskQuery())} == set(saved)
        assert (await store.counts())[State.COMPLETED] == 1
    finally:
        await store.close()
        server.remove()


@pytest.mark.spec("reliability-13", "engine-18", "engine-30")
async def test_a_redis_server_that_syncs_always_ends_when_its_disk_is_full() -> None:
    """Nothing that was acknowledged is lost."""
    server = RedisServer("--appendfsync", "always")
    server.start()
    store = open_store(server.url)
    try:
        saved = [await enqueued(store)]
        with without_room(server, log_size(server)), pytest.raises(StoreUnavailable):
            await save_on_and_on(store, saved)
        server.stop()
        server.start()
        assert {task.id for task in await store.find(TaskQuery())} >= set(saved)
        await enqueued(store)
    finally:
        await store.close()
        server.remove()
