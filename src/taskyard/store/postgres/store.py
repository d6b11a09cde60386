"""PostgresStore: the port on one schema of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import Instant, micros
from taskyard.domain.cron import Cron, CronEntry, Ticks
from taskyard.domain.errors import StaleAttempt, StoreUnavailable
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
from taskyard.store.postgres import copy, crons, logs, nodes, operate, read, settings, statistics
from taskyard.store.postgres import prune as pruning
from taskyard.store.postgres.clock import PostgresClock
from taskyard.store.postgres.connection import Database, looking
from taskyard.store.postgres.doctor import diagnose
from taskyard.store.postgres.enqueue import (
    ENQUEUE,
    ENQUEUE_ONE,
    ENQUEUE_PLAIN,
    enqueue_answers,
    enqueue_args,
    is_plain,
    one_args,
    plain_args,
)
from taskyard.store.postgres.join import Join
from taskyard.store.postgres.listen import Listening
from taskyard.store.postgres.migrate import schema_of, schema_version
from taskyard.store.postgres.names import Names
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.pulse import Pulse
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.postgres.turn import (
    TURN,
    claimed,
    finished,
    to_json,
    turn_args,
)
from taskyard.store.prune import begun


class PostgresStore:
    """A small pool, one connection that listens, one thread that beats."""

    in_order = False

    def __init__(self, options: Options, *, clock: PostgresClock | None = None) -> None:
        self.clock = clock or PostgresClock()
        self._options = options
        self._database = Database(options)
        self._listening = Listening(options)
        self._pulse = Pulse(options)
        self._join = Join(options)
        self._names = Names(self._database)

    @property
    def _now(self) -> int:
        return self.clock.reading()

    # --- life ---

    async def exists(self) -> bool:
        async with looking(self._options) as connection:
            return await schema_version(connection, self._options.namespace) > 0

    async def schema(self) -> Schema:
        async with looking(self._options) as connection:
            return await schema_of(connection, self._options.namespace)

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._listening.stop()
        await self._database.close()
        await self._pulse.stop()

    async def now(self) -> Instant:
        return await self._database.read(int, "now", self._now)

    async def diagnose(self) -> Sequence[Check]:
        async with self._database.connection() as connection:
            return await diagnose(connection, self._options)

    def listen(self, wake: Callable[[Hint], None]) -> Callable[[], None]:
        return self._listening.add(wake)

    # --- tasks ---

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None = None) -> list[Enqueue]:
        if tasks and all(map(is_plain, tasks)):
            row = await self._enqueue_plain(tasks, by)
            if row is None:
                return [Enqueued(task.id) for task in tasks]
        else:
            for task in tasks:
                task.check()
            row = await self._database.row_in_time(ENQUEUE, *enqueue_args(self._now, tasks, by))
        if by is not None and row["o_stale"]:
            raise StaleAttempt(
                f"attempt {by.attempt} is no longer the accepted one of its task: "
                "nothing was enqueued"
            )
        return enqueue_answers(tasks, row)

    async def _enqueue_plain(self, tasks: Sequence[NewTask], by: Hold | None) -> Any:
        """None if all were saved, else what sql enqueue answers."""
        if len(tasks) == 1:
            tasks[0].check()
            text = await self._database.value(ENQUEUE_ONE, *one_args(self._now, tasks[0], by))
        else:
            text = await self._database.value(ENQUEUE_PLAIN, *plain_args(self._now, tasks, by))
        return None if text is None else msgspec.json.decode(text)

    async def enqueue_in(self, connection: object, tasks: Sequence[NewTask]) -> list[Enqueue]:
        return await self._join.enqueue(connection, self._now, tasks)

    def enqueue_in_sync(self, connection: object, tasks: Sequence[NewTask]) -> list[Enqueue]:
        return self._join.enqueue_sync(connection, self._now, tasks)

    async def claim(self, request: ClaimRequest) -> Claim:
        row = await self._database.turn_row(TURN, *turn_args(self._now, (), request))
        await self._names.learn(row)
        return claimed(row, request, self._names)

    async def finish(self, verdicts: Sequence[Verdict]) -> list[Finished | Stale]:
        if not verdicts:
            return []
        row = await self._database.turn_row(TURN, *turn_args(self._now, verdicts, None))
        return finished(verdicts, row)

    async def turn(
        self,
        verdicts: Sequence[Verdict],
        request: ClaimRequest,
        answered: Answered = nobody_asks,
    ) -> Turn:
        row = await self._database.turn_row(TURN, *turn_args(self._now, verdicts, request))
        await self._names.learn(row)
        await answered(len(row["o_no"] or ()))
        return Turn(finished(verdicts, row), claimed(row, request, self._names))

    async def mark_started(self, holds: Sequence[Hold]) -> None:
        statement = "SELECT taskyard.mark_started($1, $2, $3, $4)"
        nos, attempts = [hold.no for hold in holds], [hold.attempt for hold in holds]
        leases = [hold.lease for hold in holds]
        await self._database.value(statement, self._now, nos, attempts, leases)

    async def report(self, hold: Hold, progress: Progress) -> bool:
        statement = "SELECT taskyard.report($1, $2, $3, $4)"
        args = (hold.no, hold.attempt, hold.lease, to_json(progress))
        return bool(await self._database.value(statement, *args))

    async def checkpoint(self, hold: Hold, data: str) -> bool:
        statement = "SELECT taskyard.checkpoint($1, $2, $3, $4)"
        args = (hold.no, hold.attempt, hold.lease, data)
        return bool(await self._database.value(statement, *args))

    async def append_logs(self, pages: Sequence[LogPage]) -> list[bool]:
        return await logs.append(self._database, self._now, pages)

    async def promote(self, limit: int = 1000) -> Promoted:
        row = await self._database.row("SELECT * FROM taskyard.promote($1, $2)", self._now, limit)
        return Promoted(row["o_count"], row["o_next"])

    async def expire(self, limit: int = 1000) -> int:
        statement = "SELECT taskyard.expire($1, $2)"
        return int(await self._database.value(statement, self._now, limit))

    async def rescue(self, dead: Sequence[Lease] = (), *, ended: bool = True) -> list[Rescued]:
        return await nodes.rescue(self._database, self._now, dead, ended)

    async def cancel(self, task_id: str, *, actor: str) -> Cancellation:
        return await operate.cancel(self._database, self._now, task_id, actor)

    async def pause(self, task_id: str, *, actor: str) -> Pausing:
        return await operate.pause(self._database, self._now, task_id, actor)

    async def resume(self, task_id: str, *, actor: str) -> None:
        await operate.resume(self._database, self._now, task_id, actor)

    async def retry(self, task_id: str, *, actor: str) -> None:
        await operate.retry(self._database, self._now, task_id, actor)

    async def prioritize(self, task_id: str, priority: int, *, actor: str) -> None:
        await operate.prioritize(self._database, self._now, task_id, priority, actor)

    async def explain(self, task_id: str) -> Explanation:
        return await read.explain_task(self._database, self._now, task_id)

    async def get(self, task_id: str) -> Task | None:
        return await read.get(self._database, task_id)

    async def task_logs(
        self, task_id: str, *, after: LogMark | None = None, limit: int = PAGE_LINES
    ) -> list[LogLine]:
        return await logs.of_task(self._database, task_id, after, limit)

    async def find(self, query: TaskQuery) -> list[Task]:
        return await read.find(self._database, query)

    async def page(self, query: TaskQuery) -> Page:
        return await read.page(self._database, query)

    async def endings(self, task_ids: Sequence[str]) -> list[Ending]:
        return await self._database.read(list[Ending], "endings", list(task_ids))

    async def counts(self) -> Mapping[State, int]:
        found = await self._database.read(dict[State, int], "counts")
        return {state: found.get(state, 0) for state in State}

    # --- lanes, keys, the yard ---

    async def lanes(self) -> list[Lane]:
        return await self._database.read(list[Lane], "lanes")

    async def set_lane(self, name: str, change: LaneChange, *, actor: str) -> Lane:
        return await settings.set_lane(self._database, self._now, name, change, actor)

    async def keys(self, limit: int = 100) -> list[Key]:
        return await self._database.read(list[Key], "keys", limit)

    async def yard_paused(self) -> YardPause | None:
        pauses = await self._database.read(list[YardPause], "yard_paused", self._now)
        return pauses[0] if pauses else None

    async def key_rules(self) -> list[KeyRule]:
        return await self._database.read(list[KeyRule], "key_rules")

    async def set_key_rule(
        self, pattern: str, limit: int | None, *, rate: Rate | None = None, actor: str
    ) -> None:
        rule = None if limit is None else KeyRule(pattern, limit, rate)
        await settings.set_key_rule(self._database, self._now, pattern, rule, actor)

    async def pause_yard(self, paused: bool, *, until: Instant | None = None, actor: str) -> None:
        await settings.pause_yard(self._database, self._now, paused, until, actor)

    # --- nodes ---

    async def register(self, node: NewNode) -> Lease:
        args = nodes.register_args(self._now, node)
        return int(await self._database.value(nodes.REGISTER, *args))

    def beat(self, lease: Lease, *, timeout: float, usage: Usage | None = None) -> News:
        if not self._database.is_open:
            raise StoreUnavailable(f"the store {self._options.place} is closed")
        statement = in_namespace(nodes.BEAT, self._options.namespace)
        said = None if usage is None else to_json(usage)
        row = self._pulse.row(statement, self._now, lease, said, timeout=timeout)
        return nodes.news(row)

    async def news(self, lease: Lease) -> News:
        return nodes.news(await self._database.row(nodes.NEWS, lease))

    async def holds(self, lease: Lease) -> list[Hold]:
        return await nodes.holds(self._database, lease)

    async def drain(self, lease: Lease) -> None:
        await self._database.value("SELECT taskyard.drain($1)", lease)

    async def retire(self, lease: Lease) -> None:
        await nodes.retire(self._database, self._now, lease)

    async def nodes(self) -> list[Node]:
        return await self._database.read(list[Node], "nodes", self._now)

    # --- upkeep ---

    async def take_duty(self, name: str, holder: Lease, seconds: float) -> bool:
        statement = "SELECT taskyard.take_duty($1, $2, $3, $4)"
        span = micros(seconds)
        return bool(await self._database.value(statement, self._now, name, holder, span))

    async def prune(
        self,
        retention: Retention,
        *,
        actor: str,
        after: Mark | None = None,
        limit: int = PRUNE_LIMIT,
        dry_run: bool = False,
    ) -> PruneStep:
        return await pruning.prune(
            self._database,
            self._now,
            retention,
            begun(after),
            limit,
            actor=actor,
            dry_run=dry_run,
        )

    # --- cron ---

    async def crons(self) -> list[CronEntry]:
        return await crons.crons(self._database)

    async def set_cron(self, cron: Cron, next_at: Instant | None, *, actor: str) -> bool:
        return await crons.set_cron(self._database, self._now, cron, next_at, actor)

    async def drop_cron(self, name: str, *, actor: str) -> bool:
        return await crons.drop_cron(self._database, self._now, name, actor)

    async def fire_cron(
        self, name: str, due: Instant, tasks: Sequence[NewTask], found: Ticks
    ) -> list[Enqueue] | None:
        return await crons.fire_cron(self._database, self._now, name, tasks, due=due, found=found)

    # --- statistics ---

    async def tally(self, counts: Sequence[Count]) -> None:
        await statistics.tally(self._database, self._now, counts)

    async def tallied(self, since: Instant) -> list[Count]:
        return await statistics.tallied(self._database, since)

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        return await self._database.read(list[Audited], "audit", before, limit)

    async def note(self, action: str, subject: str, detail: str, *, actor: str) -> None:
        statement = "SELECT taskyard.note(taskyard.moment($1), $2, $3, $4, $5)"
        await self._database.value(statement, self._now, actor, action, subject, detail)

    # --- copying ---

    async def export(self, *, after: int | None = None, limit: int = 100) -> list[Moved]:
        return await copy.export(self._database, after, limit)

    async def buckets(self) -> list[Bucket]:
        return await self._database.read(list[Bucket], "buckets", self._now)

    async def import_tasks(self, tasks: Sequence[Moved]) -> None:
        await copy.import_tasks(self._database, tasks)

    async def export_logs(
        self, *, after: tuple[int, int, int] | None = None, limit: int = PAGE_LINES
    ) -> list[MovedLine]:
        return await logs.export(self._database, after, limit)

    async def import_logs(self, lines: Sequence[MovedLine]) -> None:
        await logs.import_lines(self._database, lines)

    async def import_settings(
        self,
        *,
        lanes: Sequence[Lane] = (),
        rules: Sequence[KeyRule] = (),
        audit: Sequence[Audited] = (),
        crons: Sequence[CronEntry] = (),
        buckets: Sequence[Bucket] = (),
    ) -> None:
        await copy.import_settings(
            self._database, lanes, rules, audit, crons, clock=self._now, buckets=buckets
        )
