"""The thread that owns a connection, and group commit.

Calls that arrive while a commit is under way are done together in the next transaction; each one
returns after its own commit. A savepoint around each keeps one that fails from taking the others
with it, unless SQLite gives the whole transaction up: then all of them fail, with its reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from taskyard.domain.errors import StoreBusy, StoreError, StoreUnavailable
from taskyard.domain.points import Point, reach
from taskyard.store.sqlite import forks
from taskyard.store.sqlite.answers import Call, deliver, letterbox_of
from taskyard.store.sqlite.connection import MEMORY
from taskyard.store.sqlite.errors import shown
from taskyard.store.sqlite.tx import AnotherWay, Tx

T = TypeVar("T")

MAX_GROUP = 1000

# When the log's pages (4 kB) are brought into the database, after which it is written from its
# beginning again. A log that grows takes the disk twice as long to sync as one that is written
# over, so small commits keep it short. Large ones change the same pages again and again: the
# longer it may be, the less often they are written twice.
LOG_PAGES = 1000
LOG_COMMITS = 100
MOST_LOG_PAGES = 4000


class _Recess:
    """For the time of a fork there is no connection."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.over = threading.Event()


class DatabaseThread:
    """Runs jobs on one connection, in order, grouped in transactions."""

    def __init__(
        self,
        name: str,
        path: str,
        connect: Callable[[], apsw.Connection],
        begin_tx: Callable[[apsw.Connection], Tx],
        *,
        begin: str,
        on_rollback: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._path = path
        self._connect = connect
        self._begin_tx = begin_tx
        self._begin = begin
        self._on_rollback = on_rollback
        self._calls: SimpleQueue[Call[Any] | _Recess | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._recess: _Recess | None = None
        self._stopped = False
        self._has_left = True  # the thread has closed its connection for good, or was not started
        self._gate = threading.Lock()  # no call is put behind the last one, where nobody looks
        self._db: apsw.Connection | None = None
        self._log_pages = 0
        self._log_commits = 0
        self.commits = 0  # that changed something; counted before others can see them

    def start(self) -> None:
        """Opens the connection on this thread of ours, so that errors reach the caller."""
        if self._thread is not None:
            return
        with forks.minding(self):
            self._has_left = False  # from now on a fork waits for the thread
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._main, args=(opened,), name=f"taskyard-{self._name}", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # this machine has no more
            self._thread = None
            self._leave()
            raise StoreUnavailable(f"{self._path} needs a thread of its own: {error}") from error
        try:
            opened.result()
        except BaseException:
            self._thread = None  # the next call opens anew instead of waiting for a dead thread
            raise

    def stop(self) -> None:
        """Do what was accepted, then close; idempotent."""
        with self._gate:
            self._stopped = True
            self._calls.put(None)
        if self._thread is not None:
            self._thread.join()

    def pause(self) -> None:
        with self._gate:
            if self._has_left or self._path == MEMORY:
                return  # what is in memory has no locks, and would be gone
            self._recess = recess = _Recess()
            self._calls.put(recess)
        recess.begun.wait()

    def resume(self) -> None:
        recess, self._recess = self._recess, None
        if recess is not None:
            recess.over.set()

    async def run(self, job: Callable[[Tx], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._submit(Call(job, future, letterbox_of(loop)))
        return await future

    def run_blocking(self, job: Callable[[Tx], T], timeout: float | None = None) -> T:
        future: Future[T] = Future()
        self._submit(Call(job, future, None))
        try:
            return future.result(timeout)
        except TimeoutError:
            raise StoreBusy(f"{self._path} did not answer within {timeout:g} s") from None

    def _submit(self, call: Call[T]) -> None:
        with self._gate:
            if self._stopped or self._thread is None:
                raise StoreUnavailable(f"the store {self._path} is closed")
            self._calls.put(call)

    def _main(self, opened: Future[None]) -> None:
        try:
            self._db = self._open()
            opened.set_result(None)
            self._serve()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(shown(error, self._path))
        finally:
            self._leave()

    def _open(self) -> apsw.Connection:
        db = self._connect()
        db.set_wal_hook(self._count_pages)
        return db

    def _count_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        self._log_commits += 1
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """After the answers: nobody waits for it but whoever comes next."""
        if self._log_pages < LOG_PAGES or self._db is None:
            return
        if self._log_commits >= LOG_COMMITS or self._log_pages >= MOST_LOG_PAGES:
            self._log_pages = self._log_commits = 0
            with contextlib.suppress(apsw.Error):  # then after a later commit
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            if isinstance(call, _Recess):
                self._take(call)
                continue
            group, next_one = self._gather(call)
            self._transact(group)
            deliver(group)
            self._checkpoint()
            if isinstance(next_one, _Recess):
                self._take(next_one)
            elif next_one is None:
                return

    def _take(self, recess: _Recess) -> None:
        """The next group of calls opens the connection again."""
        self._close()
        recess.begun.set()
        recess.over.wait()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _leave(self) -> None:
        self._close()
        with self._gate:
            self._has_left = True
            if self._recess is not None:
                self._recess.begun.set()

    def _gather(self, first: Call[Any]) -> tuple[list[Call[Any]], _Recess | Call[Any] | None]:
        """Calls to do together, and what came behind them if that is no call; None: the end."""
        group = [first]
        while len(group) < MAX_GROUP and not self._calls.empty():
            call = self._calls.get()  # nobody else takes from it
            if not isinstance(call, Call):
                return group, call
            group.append(call)
        return group, first

    def _transact(self, group: list[Call[Any]]) -> None:
        try:
            db = self._db = self._db or self._open()
        except BaseException as error:
            self._fail(group, error)
            return
        try:
            db.execute(self._begin)
            before = db.total_changes()
            tx = self._begin_tx(db)
            alone = len(group) == 1
            for call in group:
                self._attempt(db, tx, call, alone=alone)
            if alone and group[0].error is not None:
                self._rollback(db)
            elif db.in_transaction:
                self.commits += db.total_changes() != before
                reach(Point.BEFORE_COMMIT)
                db.execute("COMMIT")
                reach(Point.AFTER_COMMIT)
            else:
                # SQLite gave the whole transaction up (a full disk does that).
                why = next((call.error for call in group if call.error is not None), None)
                raise why or StoreError(f"{self._path}: the transaction was rolled back")
        except BaseException as error:
            self._rollback(db)
            self._fail(group, error)

    def _fail(self, group: list[Call[Any]], error: BaseException) -> None:
        said = shown(error, self._path)
        for call in group:
            if call.error is None:
                call.error = said

    def _attempt(self, db: apsw.Connection, tx: Tx, call: Call[Any], *, alone: bool) -> None:
        if not db.in_transaction:
            return
        try:
            if not alone:
                db.execute("SAVEPOINT call")
            try:
                call.answers(call.job(tx))
            except AnotherWay:
                call.answers(call.job(self._begun_anew(db, tx, alone=alone)))
        except BaseException as error:
            if not alone and db.in_transaction:
                db.execute("ROLLBACK TO call")
                self._on_rollback()
            call.error = shown(error, self._path)
        if not alone and db.in_transaction:
            db.execute("RELEASE call")

    def _begun_anew(self, db: apsw.Connection, tx: Tx, *, alone: bool) -> Tx:
        self._on_rollback()
        if not alone:
            db.execute("ROLLBACK TO call")
            return tx
        db.execute("ROLLBACK")
        db.execute(self._begin)  # perhaps after another process: it is later now
        return self._begin_tx(db)

    def _rollback(self, db: apsw.Connection) -> None:
        self._on_rollback()
        if db.in_transaction:
            db.execute("ROLLBACK")
