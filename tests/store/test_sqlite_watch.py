"""Noticing the commits of other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from taskyard.store.sqlite.watch import FileWatch


class _SlowFile(apsw.VFSFile):
    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        time.sleep(0.15)
        super().xSync(flags)


class _SlowDisk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("slow disk", "")

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _SlowFile("", name, flags)


@pytest.fixture
def slow_disk() -> Iterator[str]:
    disk = _SlowDisk()
    yield "slow disk"
    disk.unregister()


@pytest.mark.spec("engine-23", "engine-28")
def test_a_commit_is_noticed_however_long_the_disk_takes(tmp_path: Path, slow_disk: str) -> None:
    """The write is seen at once, the commit only after the disk has synced it."""
    path = str(tmp_path / "yard.db")
    other = apsw.Connection(path, vfs=slow_disk)
    other.pragma("journal_mode", "WAL")
    other.pragma("synchronous", "FULL")
    other.execute("CREATE TABLE things (thing)")
    noticed, begun = threading.Event(), threading.Event()

    def own_commits() -> int:
        begun.set()  # asked for when it has seen what is there
        return 0

    watch = FileWatch(path, lambda: apsw.Connection(path), noticed.set, own_commits)
    watch.start()
    assert begun.wait(20)

    other.execute("INSERT INTO things VALUES (1)")

    assert noticed.wait(20)
    watch.stop()
    other.close()


@pytest.mark.spec("engine-23")
def test_a_watch_that_fails_begins_anew_and_tells_that_it_may_have_missed_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "yard.db")
    noticed, connections = threading.Event(), 0

    def connect() -> apsw.Connection:
        nonlocal connections
        connections += 1
        if connections == 1:
            raise apsw.IOError("disk I/O error")
        return apsw.Connection(path)

    monkeypatch.setattr("taskyard.store.sqlite.watch.AGAIN_SECONDS", 0.01)
    watch = FileWatch(path, connect, noticed.set, lambda: 0)
    watch.start()
    assert noticed.wait(20)
    watch.stop()
    assert connections == 2
