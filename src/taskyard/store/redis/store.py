"""RedisStore: the port on a Redis or Valkey server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taskyard.domain.clock import Instant, micros
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
from taskyard.domain.task import Enqueue, Enqueued, NewTask, Page, Progress, Task, TaskQuery
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
from taskyard.store.redis import (
    claim,
    copy,
    cron,
    enqueue,
    figures,
    finish,
    logs,
    migrate,
    operate,
    read,
    rescue,
    statistics,
)
from taskyard.store.redis import prune as pruning
from taskyard.store.redis.address import Address
from taskyard.store.redis.blocking import BlockingLink
from taskyard.store.redis.clock import RedisClock
from taskyard.store.redis.doctor import diagnose
from taskyard.store.redis.errors import other_layout, refuse_wrong_password
from taskyard.store.redis.hints import Subscription
from taskyard.store.redis.link import Link, Session, Wording
from taskyard.store.redis.rows import or_false
from taskyard.store.redis.scripts import SCHEMA
from taskyard.store.redis.server import hears_hints, look, refuse_lone_node, refuse_unfit

log = logging.getLogger("taskyard.store.redis")


class RedisStore:
    """A pool of connections, one for hints, and a blocking one for beats."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._wording = Wording(address.namespace)
        self._link = Link(address, self._wording)
        self._blocking = BlockingLink(address, self._wording)
        self._hints = Subscription(address, self._wording)
        self._special_lanes: set[str] = set()  # seen by us; one that is plain again may stay here
        self._opened = False
        self._closed = False
        self._opening = asyncio.Lock()

    @property
    def in_order(self) -> bool:
        """The driver's client for a cluster uses whichever connection is free."""
        return not self._link.address.cluster

    @property
    def clock(self) -> RedisClock:
        return self._wording.clock

    @clock.setter
    def clock(self, clock: RedisClock) -> None:
        self._wording.clock = clock

    # --- life ---

    async def exists(self) -> bool:
        return (await self.schema()).version > 0

    async def schema(self) -> Schema:
        # Not by the store's own link, which somebody may be opening or closing.
        link = Link(self.address, self._wording)
        try:
            found = await link.command("HGET", self._wording.key("meta"), "schema")
        finally:
            await link.close()
        version = int(found or 0)
        return Schema(version, SCHEMA, current=version == SCHEMA)

    async def open(self) -> None:
        async with self._opening:
            if self._opened:
                return
            self._link.open()
            try:
                await self._open()
            except BaseException as error:
                await self._link.close()
                refuse_wrong_password(error)
                raise
            self._opened, self._closed = True, False

    async def _open(self) -> None:
        server = await look(self._link)
        refuse_lone_node(server, self.address)
        refuse_unfit(server, force=self.address.force)
        version = int(await self._link.write("open", SCHEMA))
        if version > SCHEMA:
            raise other_layout(version, self.address)
        if version < SCHEMA:
            await migrate.migrate(self._link.write, self.address, SCHEMA)
        self._blocking.open()
        log.info("%s: %s", self.address, server.durability[1])

    async def close(self) -> None:
        async with self._opening:
            self._opened, self._closed = False, True
            await self._hints.stop()
            await self._link.close()
            self._blocking.close()

    async def _ready(self) -> None:
        """Opened by the first use; once closed, only by whoever opens it again."""
        if self._closed:
            raise StoreUnavailable(f"the store {self.address} is closed")
        if not self._opened:
            await self.open()

    async def _write(self, verb: str, *args: object) -> Any:
        await self._ready()
        return await self._link.write(verb, *args)

    async def _read(self, verb: str, *args: object) -> Any:
        await self._ready()
        return await self._link.read(verb, *args)

    async def now(self) -> Instant:
        return int(await self._read("now"))

    async def diagnose(self) -> Sequence[Check]:
        now = await self.now()
        version = int(await self._link.write("open", SCHEMA))
        hints = await hears_hints(self._link, self._wording.channel)
        server = await look(self._link)
        return diagnose(server, self.address, (version, SCHEMA), now, hints=hints)

    def listen(self, wake: Callable[[Hint], None]) -> Callable[[], None]:
        return self._hints.add(wake)

    # --- tasks ---

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None = None) -> list[Enqueue]:
        for task in tasks:
            task.check()
        await self._ready()
        with self._link.call() as session:
            if by is None and await self._enqueue_plain(session, tasks):
                return [Enqueued(task.id) for task in tasks]
            answer = await self._link.write_in(session, "enqueue", enqueue.rows(tasks), by)
        return enqueue.answers(tasks, by, answer)

    async def _enqueue_plain(self, session: Session, tasks: Sequence[NewTask]) -> bool:
        """Save them in fewer steps, if they and their lanes are plain."""
        if any(task.lane in self._special_lanes for task in tasks):
            return False
        verb, plain = "enqueue_one", enqueue.one(tasks)
        if plain is None:
            verb, plain = "enqueue_plain", enqueue.plain(tasks)
        if plain is None:
            return False
        answer = await self._link.write_in(session, verb, *plain)
        if isinstance(answer, bytes):
            self._special_lanes.add(answer.decode())
        return bool(answer == 1)

    async def claim(self, request: ClaimRequest) -> Claim:
        return await self._taken(await self._write("claim", request), request.lease)

    async def _taken(self, found: Sequence[Any], lease: Lease) -> Claim:
        """A definition that cannot be read fails its task, and holds nobody up."""
        taken, unreadable = claim.answer(found, lease)
        if unreadable:
            await self._write("finish", finish.rows(unreadable))
        return taken

    async def finish(self, verdicts: Sequence[Verdict]) -> list[Finished | Stale]:
        if not verdicts:
            return []
        return finish.answers(verdicts, await self._write("finish", finish.rows(verdicts)))

    async def turn(
        self,
        verdicts: Sequence[Verdict],
        request: ClaimRequest,
        answered: Answered = nobody_asks,
    ) -> Turn:
        if not verdicts:  # an idle worker: a shorter script
            taken = await self.claim(request)
            await answered(len(taken.tasks))
            return Turn([], taken)
        finished, claimed = await self._write("turn", finish.rows(verdicts), request)
        await answered(claim.count(claimed))
        taken = await self._taken(claimed, request.lease)
        return Turn(finish.answers(verdicts, finished), taken)

    async def mark_started(self, holds: Sequence[Hold]) -> None:
        await self._write("mark_started", holds)

    async def report(self, hold: Hold, progress: Progress) -> bool:
        return bool(await self._write("report", hold, progress))

    async def checkpoint(self, hold: Hold, data: str) -> bool:
        return bool(await self._write("checkpoint", hold, data))

    async def append_logs(self, pages: Sequence[LogPage]) -> list[bool]:
        answers = await self._write("append_logs", logs.pages(pages)) if pages else []
        return [bool(answer) for answer in answers]

    async def promote(self, limit: int = 1000) -> Promoted:
        count, next_due = await self._write("promote", limit)
        return Promoted(count, None if next_due is None else int(next_due))

    async def expire(self, limit: int = 1000) -> int:
        count: int = await self._write("expire", limit)
        return count

    async def rescue(self, dead: Sequence[Lease] = (), *, ended: bool = True) -> list[Rescued]:
        return rescue.answer(await self._write("rescue", *rescue.arguments(dead, ended)))

    async def cancel(self, task_id: str, *, actor: str) -> Cancellation:
        return await operate.cancel(self._write, task_id, actor)

    async def pause(self, task_id: str, *, actor: str) -> Pausing:
        return await operate.pause(self._write, task_id, actor)

    async def resume(self, task_id: str, *, actor: str) -> None:
        await operate.resume(self._write, task_id, actor)

    async def retry(self, task_id: str, *, actor: str) -> None:
        await operate.retry(self._write, task_id, actor)

    async def prioritize(self, task_id: str, priority: int, *, actor: str) -> None:
        await operate.prioritize(self._write, task_id, priority, actor)

    async def explain(self, task_id: str) -> Explanation:
        found = await self._read("explain", task_id, read.FAR_BACK, read.UNMET)
        return read.explanation(task_id, found)

    async def get(self, task_id: str) -> Task | None:
        return next(read.whole_tasks(await self._read("get", task_id)), None)

    async def task_logs(
        self, task_id: str, *, after: LogMark | None = None, limit: int = PAGE_LINES
    ) -> list[LogLine]:
        found = await self._read("task_logs", task_id, *(after or (0, 0)), limit)
        return logs.of_task(task_id, found)

    async def find(self, query: TaskQuery) -> list[Task]:
        return await read.find(self._read, query)

    async def page(self, query: TaskQuery) -> Page:
        return await read.page(self._read, query)

    async def endings(self, task_ids: Sequence[str]) -> list[Ending]:
        return read.endings(await self._read("endings", task_ids))

    async def counts(self) -> Mapping[State, int]:
        return dict(zip(State, await self._read("counts", list(State)), strict=True))

    # --- lanes, keys, the yard ---

    async def lanes(self) -> list[Lane]:
        return figures.lanes(await self._read("lanes"))

    async def set_lane(self, name: str, change: LaneChange, *, actor: str) -> Lane:
        return figures.lane(await operate.set_lane(self._write, name, change, actor))

    async def keys(self, limit: int = 100) -> list[Key]:
        return [figures.key(packed) for packed in await self._read("keys", limit)]

    async def yard_paused(self) -> YardPause | None:
        return operate.yard_pause(await self._read("yard_paused"))

    async def key_rules(self) -> list[KeyRule]:
        rules = await self._read("key_rules")
        return [figures.rule(p, text) for p, text in zip(rules[::2], rules[1::2], strict=True)]

    async def set_key_rule(
        self, pattern: str, limit: int | None, *, rate: Rate | None = None, actor: str
    ) -> None:
        rule, detail = operate.key_rule(pattern, limit, rate)
        await self._write("set_key_rule", pattern, actor, rule, detail)

    async def pause_yard(self, paused: bool, *, until: Instant | None = None, actor: str) -> None:
        await self._write("pause_yard", paused, until, actor)

    # --- nodes ---

    async def register(self, node: NewNode) -> Lease:
        lease: Lease = await self._write("register", *figures.node_arguments(node))
        return lease

    def beat(self, lease: Lease, *, timeout: float, usage: Usage | None = None) -> News:
        if not self._opened:
            raise StoreUnavailable(f"the store {self.address} is closed")
        said = figures.usage_text(usage)
        return figures.news(self._blocking.write("beat", lease, said, timeout=timeout))

    async def news(self, lease: Lease) -> News:
        return figures.news(await self._read("news", lease))

    async def holds(self, lease: Lease) -> list[Hold]:
        return figures.holds(lease, await self._read("holds", lease))

    async def drain(self, lease: Lease) -> None:
        await self._write("drain", lease)

    async def retire(self, lease: Lease) -> None:
        await self._write("retire", lease)

    async def nodes(self) -> list[Node]:
        return figures.nodes(await self._read("nodes"))

    # --- upkeep ---

    async def take_duty(self, name: str, holder: Lease, seconds: float) -> bool:
        return bool(await self._write("take_duty", name, holder, micros(seconds)))

    async def prune(
        self,
        retention: Retention,
        *,
        actor: str,
        after: Mark | None = None,
        limit: int = PRUNE_LIMIT,
        dry_run: bool = False,
    ) -> PruneStep:
        ask = self._read if dry_run else self._write
        mark = begun(after)
        return await pruning.prune(ask, retention, mark, limit, actor=actor, dry_run=dry_run)

    # --- cron ---

    async def crons(self) -> list[CronEntry]:
        return cron.entries(await self._read("crons"))

    async def set_cron(self, entry: Cron, next_at: Instant | None, *, actor: str) -> bool:
        entry.check()
        row = cron.row(CronEntry(entry, next_at))
        return bool(await self._write("set_cron", entry.name, row, actor))

    async def drop_cron(self, name: str, *, actor: str) -> bool:
        return bool(await self._write("drop_cron", name, actor))

    async def fire_cron(
        self, name: str, due: Instant, tasks: Sequence[NewTask], found: Ticks
    ) -> list[Enqueue] | None:
        for task in tasks:
            task.check()
        rows = enqueue.rows(tasks)
        answer = await self._write(
            "fire_cron", name, due, rows, found.start, or_false(found.next_at)
        )
        return enqueue.saved(tasks, answer) if answer else None

    # --- statistics ---

    async def tally(self, counts: Sequence[Count]) -> None:
        await self._write("tally", *statistics.rows(counts))

    async def tallied(self, since: Instant) -> list[Count]:
        return await statistics.tallied(self._read, since)

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        return read.audit(await self._read("audit", limit, before))

    async def note(self, action: str, subject: str, detail: str, *, actor: str) -> None:
        await self._write("note", actor, action, subject, detail)

    # --- copying ---

    async def export(self, *, after: int | None = None, limit: int = 100) -> list[Moved]:
        return await copy.export(self._read, after, limit)

    async def buckets(self) -> list[Bucket]:
        return copy.buckets(await self._read("buckets"))

    async def import_tasks(self, tasks: Sequence[Moved]) -> None:
        await self._write("import_tasks", copy.rows(tasks))

    async def export_logs(
        self, *, after: tuple[int, int, int] | None = None, limit: int = PAGE_LINES
    ) -> list[MovedLine]:
        return logs.moved(await self._read("export_logs", *(after or (0, 0, 0)), limit))

    async def import_logs(self, lines: Sequence[MovedLine]) -> None:
        if lines:
            await self._write("import_logs", logs.rows(lines))

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
            "import_settings",
            [figures.settings(lane) for lane in lanes],
            [(rule.pattern, figures.rule_text(rule)) for rule in rules],
            audit,
            [(entry.cron.name, cron.row(entry)) for entry in crons],
            buckets,
        )
