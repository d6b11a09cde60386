"""Opening a file safely, or saying why not."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from taskyard.domain.errors import (
    ConfigurationError,
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from taskyard.domain.state import State
from taskyard.store.port import Hint
from taskyard.store.sqlite import connection
from taskyard.store.sqlite.errors import translate
from taskyard.store.sqlite.migrate import migrate, newest_version, schema_version
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.url import open_store
from tests.conformance.verbs import complete, enqueued, node, running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "yard.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(str(path))
    await opened.open()
    yield opened
    await opened.close()


def refusal(path: Path, kind: type[Exception]) -> str:
    """What is said when this file cannot be opened."""

    async def try_it() -> str:
        store = SqliteStore(str(path), busy_seconds=0.01)
        with pytest.raises(kind) as refused:
            await store.open()
        await store.close()
        return str(refused.value)

    return asyncio.run(try_it())


@pytest.mark.spec("engine-28")
def test_an_sqlite_that_can_lose_data_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")

    message = refusal(path, ConfigurationError)

    assert "SQLite 3.51.2" in message
    assert "3.51.3 or newer" in message
    assert not path.exists()


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(connection, "filesystem_of", lambda _: kind)

    assert f"network file system ({kind})" in refusal(path, ConfigurationError)
    assert not path.exists()


@pytest.mark.spec("engine-28")
def test_the_file_system_of_a_folder_is_known(tmp_path: Path) -> None:
    assert connection.filesystem_of(Path("/proc")) == "proc"
    assert connection.filesystem_of(tmp_path) not in {None, "proc"}


@pytest.mark.spec("engine-28")
def test_a_mount_point_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw - ext4 /dev/a rw\n"
        "36 22 0:30 / /mnt/données rw - nfs4 there:/x rw\n"
        "37 22 0:31 / /mnt/two\\040words rw - cifs //there/y rw\n",
        "utf-8",
    )
    monkeypatch.setattr(connection, "_MOUNTS", mounts)

    assert connection.filesystem_of(Path("/mnt/données/yards")) == "nfs4"
    assert connection.filesystem_of(Path("/mnt/two words")) == "cifs"
    assert connection.filesystem_of(Path("/mnt")) == "ext4"


@pytest.mark.spec("engine-28")
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)

    assert "is not an SQLite database" in refusal(path, StoreCorrupt)
    assert path.read_text() == "Dear diary, " * 1000


@pytest.mark.spec("engine-28")
def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path, StoreUnavailable)


@pytest.mark.spec("engine-28")
def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"no folder {tmp_path / 'no'}" in refusal(tmp_path / "no" / "yard.db", StoreUnavailable)


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_written_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    # Root may write everywhere, so the answer of the system is put in its mouth.
    path.touch()
    closed = path if what == "file" else path.parent
    monkeypatch.setattr(os, "access", lambda asked, _: Path(asked) != closed)

    message = refusal(path, StoreReadOnly)

    assert str(closed) in message
    assert "cannot be written" in message


@pytest.mark.spec("engine-28")
async def test_a_failed_opening_can_be_repeated(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "later" / "yard.db"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.open()
    (tmp_path / "later").mkdir()

    await store.open()

    await enqueued(store)
    await store.close()


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize("name", ["taskyard-sqlite-life", "taskyard-sqlite-writer"])
async def test_a_store_that_gets_no_thread_says_so_and_can_be_opened_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    store, start = SqliteStore(str(path)), threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as during:
        during.setattr(threading.Thread, "start", refused)
        with pytest.raises(StoreUnavailable, match="a thread of its own: can't start new thread"):
            await store.open()
    await store.open()
    assert await store.counts()
    await store.close()


@pytest.mark.spec("engine-27")
def test_a_file_made_by_a_newer_taskyard_is_refused(path: Path) -> None:
    db = apsw.Connection(str(path))
    migrate(db, "taskyard", str(path))
    db.execute("UPDATE taskyard_meta SET value = 9999 WHERE name = 'schema'")
    db.close()

    message = refusal(path, SchemaMismatch)

    assert "made by a newer Taskyard (schema 9999" in message


@pytest.mark.spec("engine-27")
async def test_opening_again_changes_nothing(path: Path) -> None:
    def schema() -> tuple[int, list[tuple[object, ...]]]:
        db = apsw.Connection(str(path))
        rows = list(db.execute("SELECT name, sql FROM sqlite_master ORDER BY name"))
        version = schema_version(db, "taskyard")
        db.close()
        return version, rows

    first = SqliteStore(str(path))
    task_id = await enqueued(first)
    await first.close()
    before = schema()
    second = SqliteStore(str(path))
    await second.open()

    assert await second.get(task_id) is not None
    await second.close()
    assert schema() == before
    assert before[0] == newest_version()


@pytest.mark.spec("engine-18", "engine-28")
async def test_a_commit_is_on_the_disk_when_it_returns(store: SqliteStore) -> None:
    for thread in (store._writer, store._reader):
        db = thread._db
        assert db is not None
        assert db.pragma("journal_mode") == "wal"
        assert db.pragma("synchronous") == 2
        assert db.pragma("temp_store") == 2
        assert db.pragma("cache_size") == -16000
        assert db.pragma("journal_size_limit") == 64 * 1024 * 1024


@pytest.mark.spec("engine-27")
async def test_namespaces_keep_yards_apart_in_one_file(path: Path) -> None:
    stores = [
        open_store(f"sqlite:///{path}?namespace={name}") for name in ("blue", "green", "node")
    ]
    stores.append(open_store(f"sqlite:///{path}"))
    made = [await enqueued(store, keys=("k",)) for store in stores]

    for store, task_id in zip(stores, made, strict=True):
        worker = await node(store)
        [task] = await worker.claim(10)
        assert task.id == task_id
        await complete(store, task)
        assert (await store.counts())[State.COMPLETED] == 1
        await store.close()


@pytest.mark.spec("engine-27")
@pytest.mark.parametrize(
    "url",
    [
        "yard.db",
        "mysql://x",
        "sqlite://",
        "sqlite:///",
        "sqlite:///a.db?wrong=1",
        "sqlite:///a.db?namespace=a-b",
        "sqlite:///a.db?namespace=",
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        open_store(url)


@pytest.mark.spec("engine-27")
async def test_a_store_in_memory_works_and_wakes_its_listeners() -> None:
    store = open_store("sqlite://:memory:")
    hints: list[Hint] = []
    worker = await node(store)
    stop = store.listen(hints.append)

    await complete(store, await running(store, worker, keys=("k",)))

    assert (await store.counts())[State.COMPLETED] == 1
    assert hints
    stop()
    await store.close()


@pytest.mark.spec("engine-23")
async def test_a_store_in_memory_wakes_nobody_for_nothing() -> None:
    """A worker looks again when it is woken: woken by its own looking it would never rest."""
    store = SqliteStore(":memory:")
    woken: list[Hint] = []
    stop = store.listen(woken.append)
    idle = await node(store)
    await asyncio.sleep(0)
    assert woken != []
    woken.clear()
    assert await idle.claim() == []
    await asyncio.sleep(0)
    assert woken == []
    stop()
    await store.close()


@pytest.mark.spec("engine-27")
async def test_two_stores_in_memory_are_two_places() -> None:
    one, other = open_store("sqlite://:memory:"), open_store("sqlite://:memory:")
    task_id = await enqueued(one)

    assert await other.get(task_id) is None
    await one.close()
    await other.close()


@pytest.mark.spec("engine-28")
async def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(str(path))
    worker = await node(store)
    await store.close()

    with pytest.raises(StoreUnavailable, match="is closed"):
        await enqueued(store)
    with pytest.raises(StoreUnavailable, match="is closed"):
        await store.counts()
    with pytest.raises(StoreUnavailable, match="is closed"):
        worker.beat()
    await store.close()


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.FullError(), StoreFull),
        (apsw.ReadOnlyError(), StoreReadOnly),
        (apsw.NotADBError(), StoreCorrupt),
        (apsw.CorruptError(), StoreCorrupt),
        (apsw.BusyError(), StoreBusy),
        (apsw.LockedError(), StoreBusy),
        (apsw.CantOpenError(), StoreUnavailable),
        (apsw.IOError(), StoreUnavailable),
        (apsw.ConstraintError(), StoreError),
    ],
    ids=repr,
)
def test_the_errors_of_the_driver_are_translated(error: apsw.Error, kind: type[StoreError]) -> None:
    translated = translate(error, "yard.db")

    assert type(translated) is kind
    assert "yard.db" in str(translated)
