"""SqliteStore: the port on one file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import apsw

from taskyard.domain.clock import Instant
from taskyard.domain.cron import Cron, CronEntry, Ticks
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited, Key, KeyRule, Lane, LaneChange
from taskyard.domain.logs import PAGE_LINES, LogLine, LogMark, LogPage, MovedLine
from taskyard.domain.moved import Bucket, Moved
from taskyard.domain.node import Hold, Lease, NewNode, News, Node, Usage
from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Retention
from taskyard.domain.state import State
from taskyard.domain.statistics import Count
from taskyard.domain.task import Enqueue, NewTask, Page, Progress, Task, TaskQuery
from taskyard.store import paging
from taskyard.store.port import (
    PRUNE_LIMIT,
    Answered,
    Cancellation,
    Check,
    Claim,
    ClaimRequest,
    Ending,
    Hint,
    Mark,
    Pausing,
    Promoted,
    PruneStep,
    Rescued,
    Schema,
    Turn,
    YardPause,
    nobody_asks,
)
from taskyard.store.prune import begun
from taskyard.store.sqlite import claim as claiming
from taskyard.store.sqlite import (
    copy,
    crons,
    due,
    figures,
    keys,
    lanes,
    logs,
    nodes,
    operate,
    pausing,
    read,
    rescue,
)
from taskyard.store.sqlite import enqueue as enqueuing
from taskyard.store.sqlite import explain as explaining
from taskyard.store.sqlite import finish as finishing
from taskyard.store.sqlite import prune as pruning
from taskyard.store.sqlite.aside import aside
from taskyard.store.sqlite.clock import SqliteClock
from taskyard.store.sqlite.connection import BUSY_SECONDS, MEMORY, connect
from taskyard.store.sqlite.doctor import diagnose
from taskyard.store.sqlite.join import joined
from taskyard.store.sqlite.migrate import migrate
from taskyard.store.sqlite.presence import holds_yard, schema_of
from taskyard.store.sqlite.queries import DEFAULT_NAMESPACE
from taskyard.store.sqlite.thread import DatabaseThread
from taskyard.store.sqlite.tx import Names, Tx
from taskyard.store.sqlite.unread import Unread
from taskyard.store.sqlite.watch import FileWatch

T = TypeVar("T")


class SqliteStore:
    """One writer thread, one reader thread, one thread that watches for other processes."""

    in_order = True

    def __init__(
        self,
        path: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        clock: SqliteClock | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path
        self.clock = clock or SqliteClock()
        self._namespace = namespace
        self._busy_seconds = busy_seconds
        self._names = Names()
        self._listeners: dict[object, Callable[[], None]] = {}
        self._opened = False
        self._closed = False
        self._opening = asyncio.Lock()
        self._make_threads()

    def _make_threads(self) -> None:
        self._writer = self._database("writer", self._connect_writer, "BEGIN IMMEDIATE")
        # A memory database belongs to its one connection.
        self._reader = (
            self._writer
            if self.path == MEMORY
            else self._database("reader", self._connect, "BEGIN DEFERRED")
        )
        self._watch = FileWatch(self.path, self._connect, self._tell, lambda: self._writer.commits)

    def _database(
        self, name: str, make: Callable[[], apsw.Connection], begin: str
    ) -> DatabaseThread:
        return DatabaseThread(
            f"sqlite-{name}",
            self.path,
            make,
            lambda db: Tx(db, self.clock, self._names, self._namespace),
            begin=begin,
            on_rollback=self._names.forget,
        )

    def _connect(self) -> apsw.Connection:
        return connect(self.path, busy_seconds=self._busy_seconds)

    def _connect_writer(self) -> apsw.Connection:
        db = self._connect()
        migrate(db, self._namespace, self.path)
        return db

    # --- life ---

    async def exists(self) -> bool:
        return await aside(lambda: holds_yard(self.path, self._namespace))

    async def schema(self) -> Schema:
        return await aside(lambda: schema_of(self.path, self._namespace))

    async def open(self) -> None:
        async with self._opening:
            if self._opened:
                return
            if self._closed:
                self._make_threads()
            await aside(self._writer.start)
            await aside(self._reader.start)
            self._opened, self._closed = True, False

    async def close(self) -> None:
        async with self._opening:
            self._opened, self._closed = False, True
            await aside(self._watch.stop)
            await aside(self._reader.stop)
            await aside(self._writer.stop)

    async def _be_open(self) -> None:
        """Nothing has to be opened by hand, but what was closed stays closed until it is."""
        if not self._opened and not self._closed:
            await self.open()

    async def _write(self, job: Callable[[Tx], T]) -> T:
        if not self._opened:
            await self._be_open()
        before = self._writer.commits
        answer = await self._writer.run(job)
        if self.path == MEMORY and self._writer.commits != before:
            self._tell()  # there is no file to watch
        return answer

    async def _read(self, job: Callable[[Tx], T]) -> T:
        if not self._opened:
            await self._be_open()
        return await self._reader.run(job)

    async def now(self) -> Instant:
        return self.clock.now()

    async def diagnose(self) -> Sequence[Check]:
        return await self._read(lambda tx: diagnose(tx, self.path, self._namespace))

    def listen(self, wake: Callable[[Hint], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        token = object()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens there
                loop.call_soon_threadsafe(wake, Hint.CHANGED)

        self._listeners[token] = tell
        if self.path != MEMORY:
            self._watch.start()
        return lambda: self._listeners.pop(token, None) and None

    def _tell(self) -> None:
        for tell in list(self._listeners.values()):
            tell()

    # --- tasks ---

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None = None) -> list[Enqueue]:
        for task in tasks:
            task.check()
        return await self._write(lambda tx: enqueuing.enqueue(tx, tasks, by))

    async def enqueue_in(self, connection: object, tasks: Sequence[NewTask]) -> list[Enqueue]:
        return self.enqueue_in_sync(connection, tasks)

    def enqueue_in_sync(self, connection: object, tasks: Sequence[NewTask]) -> list[Enqueue]:
        for task in tasks:
            task.check()
        with joined(connection, self.path, self._namespace) as db:
            # Names of its own: those made in a transaction that is rolled back never existed.
            return enqueuing.enqueue(Tx(db, self.clock, Names(), self._namespace), tasks)

    async def claim(self, request: ClaimRequest) -> Claim:
        return await self._read_claim(
            request, await self._write(lambda tx: claiming.claim(tx, request))
        )

    async def finish(self, verdicts: Sequence[Verdict]) -> list[Finished | Stale]:
        return await self._write(lambda tx: finishing.finish(tx, verdicts))

    async def turn(
        self,
        verdicts: Sequence[Verdict],
        request: ClaimRequest,
        answered: Answered = nobody_asks,
    ) -> Turn:
        finished, claimed = await self._write(
            lambda tx: (finishing.finish(tx, verdicts), claiming.claim(tx, request))
        )
        await answered(claimed.count if isinstance(claimed, Unread) else len(claimed.tasks))
        return Turn(finished, await self._read_claim(request, claimed))

    async def _read_claim(self, request: ClaimRequest, claimed: Claim | Unread) -> Claim:
        read = claimed.read() if isinstance(claimed, Unread) else claimed
        # Asked again by its number, it finds out which cannot be read, and ends those.
        return read if read is not None else await self.claim(request)

    async def mark_started(self, holds: Sequence[Hold]) -> None:
        await self._write(lambda tx: finishing.mark_started(tx, holds))

    async def report(self, hold: Hold, progress: Progress) -> bool:
        return await self._write(lambda tx: finishing.report(tx, hold, progress))

    async def checkpoint(self, hold: Hold, data: str) -> bool:
        return await self._write(lambda tx: pausing.checkpoint(tx, hold, data))

    async def append_logs(self, pages: Sequence[LogPage]) -> list[bool]:
        return await self._write(lambda tx: logs.append(tx, pages)) if pages else []

    async def promote(self, limit: int = 1000) -> Promoted:
        # Looking costs the writer nothing; most looks find nothing to do.
        seen = await self._read(due.next_due)
        if seen is None or seen > self.clock.now():
            return Promoted(0, seen)
        return await self._write(lambda tx: due.promote(tx, limit))

    async def expire(self, limit: int = 1000) -> int:
        if not await self._read(due.any_late):
            return 0
        return await self._write(lambda tx: due.expire(tx, limit))

    async def rescue(self, dead: Sequence[Lease] = (), *, ended: bool = True) -> list[Rescued]:
        return await self._write(lambda tx: rescue.rescue(tx, dead, ended))

    async def cancel(self, task_id: str, *, actor: str) -> Cancellation:
        return await self._write(lambda tx: operate.cancel(tx, task_id, actor))

    async def pause(self, task_id: str, *, actor: str) -> Pausing:
        return await self._write(lambda tx: pausing.pause(tx, task_id, actor))

    async def resume(self, task_id: str, *, actor: str) -> None:
        await self._write(lambda tx: pausing.resume(tx, task_id, actor))

    async def retry(self, task_id: str, *, actor: str) -> None:
        await self._write(lambda tx: operate.retry(tx, task_id, actor))

    async def prioritize(self, task_id: str, priority: int, *, actor: str) -> None:
        await self._write(lambda tx: operate.prioritize(tx, task_id, priority, actor))

    async def explain(self, task_id: str) -> Explanation:
        return await self._read(lambda tx: explaining.explain(tx, task_id))

    async def get(self, task_id: str) -> Task | None:
        return await self._read(lambda tx: read.get(tx, task_id))

    async def task_logs(
        self, task_id: str, *, after: LogMark | None = None, limit: int = PAGE_LINES
    ) -> list[LogLine]:
        return await self._read(lambda tx: logs.of_task(tx, task_id, after, limit))

    async def find(self, query: TaskQuery) -> list[Task]:
        return await paging.full(
            query, lambda part: self._read(lambda tx: read.list_tasks(tx, part))
        )

    async def page(self, query: TaskQuery) -> Page:
        return await self._read(lambda tx: read.page(tx, query))

    async def endings(self, task_ids: Sequence[str]) -> list[Ending]:
        return await self._read(lambda tx: read.endings(tx, task_ids))

    async def counts(self) -> Mapping[State, int]:
        return await self._read(read.counts)

    # --- lanes, keys, the yard ---

    async def lanes(self) -> list[Lane]:
        return await self._read(lanes.list_lanes)

    async def set_lane(self, name: str, change: LaneChange, *, actor: str) -> Lane:
        return await self._write(lambda tx: lanes.set_lane(tx, name, change, actor))

    async def keys(self, limit: int = 100) -> list[Key]:
        return await self._read(lambda tx: keys.list_keys(tx, limit))

    async def yard_paused(self) -> YardPause | None:
        return await self._read(pausing.yard_paused)

    async def key_rules(self) -> list[KeyRule]:
        return await self._read(keys.rule_list)

    async def set_key_rule(
        self, pattern: str, limit: int | None, *, rate: Rate | None = None, actor: str
    ) -> None:
        await self._write(lambda tx: keys.set_rule(tx, pattern, limit, rate, actor))

    async def pause_yard(self, paused: bool, *, until: Instant | None = None, actor: str) -> None:
        await self._write(lambda tx: pausing.pause_yard(tx, paused, until, actor))

    # --- nodes ---

    async def register(self, node: NewNode) -> Lease:
        return await self._write(lambda tx: nodes.register(tx, node))

    def beat(self, lease: Lease, *, timeout: float, usage: Usage | None = None) -> News:
        if not self._opened:
            raise StoreUnavailable(f"the store {self.path} is closed")
        return self._writer.run_blocking(lambda tx: nodes.beat(tx, lease, usage), timeout)

    async def news(self, lease: Lease) -> News:
        return await self._read(lambda tx: nodes.news(tx, lease))

    async def holds(self, lease: Lease) -> list[Hold]:
        return await self._read(lambda tx: nodes.holds(tx, lease))

    async def drain(self, lease: Lease) -> None:
        await self._write(lambda tx: nodes.drain(tx, lease))

    async def retire(self, lease: Lease) -> None:
        await self._write(lambda tx: nodes.retire(tx, lease))

    async def nodes(self) -> list[Node]:
        return await self._read(nodes.list_nodes)

    # --- upkeep ---

    async def take_duty(self, name: str, holder: Lease, seconds: float) -> bool:
        return await self._write(lambda tx: nodes.take_duty(tx, name, holder, seconds))

    async def prune(
        self,
        retention: Retention,
        *,
        actor: str,
        after: Mark | None = None,
        limit: int = PRUNE_LIMIT,
        dry_run: bool = False,
    ) -> PruneStep:
        mark = begun(after)
        if dry_run:
            return await self._read(lambda tx: pruning.count(tx, retention, mark, limit))
        return await self._write(lambda tx: pruning.prune(tx, retention, mark, limit, actor))

    # --- cron ---

    async def crons(self) -> list[CronEntry]:
        return await self._read(crons.crons)

    async def set_cron(self, cron: Cron, next_at: Instant | None, *, actor: str) -> bool:
        cron.check()
        return await self._write(lambda tx: crons.set_cron(tx, cron, next_at, actor))

    async def drop_cron(self, name: str, *, actor: str) -> bool:
        return await self._write(lambda tx: crons.drop_cron(tx, name, actor))

    async def fire_cron(
        self, name: str, due: Instant, tasks: Sequence[NewTask], found: Ticks
    ) -> list[Enqueue] | None:
        for task in tasks:
            task.check()
        return await self._write(lambda tx: crons.fire_cron(tx, name, due, tasks, found))

    # --- statistics ---

    async def tally(self, counts: Sequence[Count]) -> None:
        await self._write(lambda tx: figures.tally(tx, counts))

    async def tallied(self, since: Instant) -> list[Count]:
        return await self._read(lambda tx: figures.tallied(tx, since))

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        return await self._read(lambda tx: read.audit(tx, limit, before))

    async def note(self, action: str, subject: str, detail: str, *, actor: str) -> None:
        await self._write(lambda tx: tx.audit(actor, [(action, subject, detail)]))

    # --- copying ---

    async def export(self, *, after: int | None = None, limit: int = 100) -> list[Moved]:
        return await self._read(lambda tx: copy.export(tx, after, limit))

    async def buckets(self) -> list[Bucket]:
        return await self._read(copy.buckets)

    async def import_tasks(self, tasks: Sequence[Moved]) -> None:
        await self._write(lambda tx: copy.import_tasks(tx, tasks))

    async def export_logs(
        self, *, after: tuple[int, int, int] | None = None, limit: int = PAGE_LINES
    ) -> list[MovedLine]:
        return await self._read(lambda tx: logs.export(tx, after, limit))

    async def import_logs(self, lines: Sequence[MovedLine]) -> None:
        await self._write(lambda tx: logs.import_lines(tx, lines))

    async def import_settings(
        self,
        *,
        lanes: Sequence[Lane] = (),
        rules: Sequence[KeyRule] = (),
        audit: Sequence[Audited] = (),
        crons: Sequence[CronEntry] = (),
        buckets: Sequence[Bucket] = (),
    ) -> None:
        await self._write(
            lambda tx: copy.import_settings(tx, lanes, rules, audit, crons, buckets=buckets)
        )
