"""Notices commits of other processes on the same file, without busy polling.

The kernel tells of every write to the `-wal` file (inotify). The write comes before the commit can
be seen, by as long as the disk takes to sync it, so after an event the file is looked at again, at
growing distances. Where there is no inotify, the version of the database is asked for every 20 ms.

Our own commits write to the file as well. Whoever made them knows already, so they are told a
little later and together: told at once, each commit of a worker would make it look for tasks in
vain.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from taskyard.store.sqlite import forks

log = logging.getLogger("taskyard.store.sqlite")

_IN_MODIFY = 0x00000002
_IN_CLOEXEC = 0o2000000
_IN_NONBLOCK = 0o4000

LOOK_AGAIN = tuple(0.0005 * 2**step for step in range(11))  # 1 s in all: a slow disk's fsync
POLL_SECONDS = 0.02
OWN_SECONDS = 0.02
WRITING_SECONDS = 0.002
AGAIN_SECONDS = 1.0


class FileWatch:
    """Calls `changed` from its own thread after commits, its own process's included."""

    def __init__(
        self,
        path: str,
        connect: Callable[[], apsw.Connection],
        changed: Callable[[], None],
        own_commits: Callable[[], int],
    ) -> None:
        self._path = path
        self._connect = connect
        self._changed = changed
        self._own_commits = own_commits  # counted before each commit
        self._thread: threading.Thread | None = None
        self._stop_read, self._stop_write = -1, -1
        self._is_paused = False
        self._gate = threading.Lock()

    def start(self) -> None:
        if self._thread is None:
            with forks.minding(self):
                self._begin()

    def stop(self) -> None:
        self._is_paused = False
        self._end()

    def pause(self) -> None:
        self._is_paused = self._end()

    def resume(self) -> None:
        if self._is_paused:
            self._begin()

    def _begin(self) -> None:
        with self._gate:
            if self._thread is not None:
                return
            self._stop_read, self._stop_write = os.pipe()
            thread = threading.Thread(target=self._main, name="taskyard-sqlite-watch", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # this machine has no more: tasks are found by polling
                log.warning("the file %s cannot be watched: %s", self._path, error)
                os.close(self._stop_read)
                os.close(self._stop_write)
                return
            self._thread = thread

    def _end(self) -> bool:
        """Whether it was there."""
        with self._gate:
            if self._thread is None:
                return False
            os.write(self._stop_write, b"x")
            self._thread.join()
            os.close(self._stop_read)
            os.close(self._stop_write)
            self._thread = None
            return True

    def _main(self) -> None:
        while True:
            try:
                self._watch()
            except (apsw.Error, OSError) as error:
                log.warning("the file %s cannot be watched: %s", self._path, error)
                if not self._is_stopped_within(AGAIN_SECONDS):
                    self._changed()  # perhaps unseen
                    continue
            return

    def _watch(self) -> None:
        with contextlib.closing(self._connect()) as db:
            inotify = _watch_file(Path(f"{self._path}-wal"))
            try:
                self._follow(db, inotify)
            finally:
                if inotify is not None:
                    os.close(inotify)

    def _follow(self, db: apsw.Connection, inotify: int | None) -> None:
        watched = [self._stop_read] if inotify is None else [self._stop_read, inotify]
        version, own = _version(db), self._own_commits()
        looks: Iterator[float] = iter(())
        owed: float | None = None  # when our own commits are to be told
        while True:
            pause = POLL_SECONDS if inotify is None else next(looks, None)
            ready, _, _ = select.select(watched, [], [], _sooner(pause, owed))
            if self._stop_read in ready:
                return
            if inotify in ready and inotify is not None:
                if self._own_commits() != own and self._is_stopped_within(WRITING_SECONDS):
                    return  # ours has just begun to be written; that is an event for each page
                _drain(inotify)
                looks = iter(LOOK_AGAIN)
            seen, own_seen = _version(db), self._own_commits()
            if seen != version and own_seen == own:
                owed = time.monotonic()
            elif seen != version:
                # Another's commit may hide behind ours: it waits with them, not for ever.
                owed = owed or time.monotonic() + OWN_SECONDS
            if seen != version:
                version, own = seen, own_seen
            if owed is not None and time.monotonic() >= owed:
                owed = None
                self._changed()

    def _is_stopped_within(self, seconds: float) -> bool:
        return bool(select.select([self._stop_read], [], [], seconds)[0])


def _sooner(pause: float | None, moment: float | None) -> float | None:
    """How long to sleep; None: until something is written."""
    if moment is None:
        return pause
    left = max(0.0, moment - time.monotonic())
    return left if pause is None else min(pause, left)


def _version(db: apsw.Connection) -> int:
    """Changes with every commit of another connection (the method of the same name does not)."""
    return int(db.pragma("data_version"))


def _watch_file(path: Path) -> int | None:
    """An inotify descriptor for writes to this file, or None where there is no inotify."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK)
    except (OSError, AttributeError):
        return None
    if fd < 0:
        return None
    if libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(fd)
        return None
    return int(fd)


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            pass
    except BlockingIOError:
        return
