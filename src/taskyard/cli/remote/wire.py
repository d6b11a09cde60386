"""What a server tells of tasks, lanes, workers and crons, and how it reads in the domain.

Fields that a server does not tell are unset, and so not printed: lists of tasks come without
payloads, workers without their leases.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from taskyard.domain.clock import Instant, as_instant
from taskyard.domain.cron import CatchUp, Cron, CronEntry
from taskyard.domain.lane import Audited, Key, KeyRule, Lane, Order
from taskyard.domain.logs import Level, LogLine
from taskyard.domain.node import Node, NodeState, ProcessIdentity, Usage
from taskyard.domain.rate import Rate
from taskyard.domain.state import Reason, State
from taskyard.domain.statistics import KindStatistics
from taskyard.domain.task import FailedAttempt, NewTask, Progress, Task, TaskError

UNSET = msgspec.UNSET
Unset: TypeAlias = msgspec.UnsetType

_REASONS = frozenset(Reason)


class SeenAttempt(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int
    outcome: str  # a reason, or the state of one that runs or ended well
    started_at: datetime | None = None
    ended_at: datetime | None = None
    node: str | None = None
    error: TaskError | None = None


class SeenTask(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    lane: str
    priority: int
    state: State
    reason: Reason
    keys: tuple[str, ...]
    group: str
    attempt: int
    created_at: datetime
    run_at: datetime
    deadline: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    node: str | None
    asked: str | None
    progress: Progress | None
    error: TaskError | None
    # Of one task alone:
    no: int | Unset = UNSET
    seq: int | Unset = UNSET
    payload: msgspec.Raw | Unset = UNSET
    result: msgspec.Raw | Unset = UNSET
    checkpoint: msgspec.Raw | Unset = UNSET
    dedup: str | Unset | None = UNSET
    requires: tuple[str, ...] | Unset = UNSET
    depends_on: tuple[str, ...] | Unset = UNSET
    on_failure: str | Unset = UNSET
    waits_for: int | Unset = UNSET
    charged: int | Unset = UNSET
    max_charged: int | Unset = UNSET
    losses: int | Unset = UNSET
    timeout: float | Unset = UNSET
    parked_on: str | Unset | None = UNSET
    attempts: list[SeenAttempt] | Unset = UNSET

    def as_task(self) -> Task:
        said = {name: _plain(getattr(self, name)) for name in self.__struct_fields__}
        attempts = said.pop("attempts")
        said["failures"] = attempts if attempts is UNSET else _failures(attempts)
        return Task(**said)


class TaskPage(msgspec.Struct, frozen=True):
    items: list[SeenTask]
    next: str | None


class SeenLane(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: int | None
    max_depth: int | None
    rate: Rate | None
    order: Order
    ageing: float | None
    paused: bool
    paused_reason: str | None
    paused_until: datetime | None
    running: int
    queued: int
    pending: int

    def as_lane(self) -> Lane:
        return Lane(**{name: _plain(getattr(self, name)) for name in self.__struct_fields__})


class Lanes(msgspec.Struct, frozen=True):
    items: list[SeenLane]


class SeenNode(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: NodeState
    kinds: tuple[str, ...]
    capabilities: tuple[str, ...]
    labels: dict[str, str]
    slots: int
    running: int
    host: str | None
    pid: int | None
    registered_at: datetime
    seen_at: datetime
    lease_seconds: float
    lease_left: float
    usage: Usage | None

    def as_node(self) -> Node:
        said = {name: _plain(getattr(self, name)) for name in self.__struct_fields__}
        host, pid = said.pop("host"), said.pop("pid")
        unsaid: Any = UNSET
        process = None if host is None else ProcessIdentity(host, unsaid, pid, unsaid)
        return Node(**said, lease=unsaid, process=process)


class Nodes(msgspec.Struct, frozen=True):
    items: list[SeenNode]


class SeenCron(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    schedule: str
    timezone: str
    catch_up: CatchUp
    paused: bool
    declared: bool
    kind: str
    lane: str
    priority: int
    params: msgspec.Raw
    next_at: datetime | None
    last_at: datetime | None

    def as_entry(self) -> CronEntry:
        cron = Cron(
            name=self.name,
            schedule=self.schedule,
            timezone=self.timezone,
            catch_up=self.catch_up,
            paused=self.paused,
            declared=self.declared,
            task=NewTask(
                kind=self.kind,
                payload=bytes(self.params).decode(),
                lane=self.lane,
                priority=self.priority,
            ),
        )
        return CronEntry(cron=cron, next_at=_plain(self.next_at), last_at=_plain(self.last_at))


class Crons(msgspec.Struct, frozen=True):
    items: list[SeenCron]


class Keys(msgspec.Struct, frozen=True):
    items: list[Key]
    rules: list[KeyRule]


class SeenLine(msgspec.Struct, frozen=True, kw_only=True):
    no: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: str

    def as_audited(self) -> Audited:
        return Audited(**{name: _plain(getattr(self, name)) for name in self.__struct_fields__})


class AuditPage(msgspec.Struct, frozen=True):
    items: list[SeenLine]
    next: int | None


class SeenLog(msgspec.Struct, frozen=True):
    """A line of a task's log."""

    attempt: int
    number: int
    at: datetime
    level: Level
    text: str

    def as_line(self) -> LogLine:
        return LogLine(self.attempt, self.number, as_instant(self.at), self.level, self.text)


class LogPage(msgspec.Struct, frozen=True):
    items: list[SeenLog]
    next: str | None


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    paused: bool
    counts: dict[State, int]
    clock: datetime

    @property
    def now(self) -> Instant:
        return as_instant(self.clock)


class Stats(msgspec.Struct, frozen=True):
    kinds: list[KindStatistics]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parameters: dict[str, Any]  # a JSON schema


class Kinds(msgspec.Struct, frozen=True):
    items: list[Kind]


class Acted(msgspec.Struct, frozen=True):
    outcome: str
    state: State


class Created(msgspec.Struct, frozen=True):
    id: str
    outcome: str
    changed: bool = False


def _plain(value: Any) -> Any:
    """An instant for a moment, the text of stored JSON."""
    match value:
        case datetime():
            return as_instant(value)
        case msgspec.Raw():
            text = bytes(value).decode()
            return None if text == "null" else text
        case _:
            return value


def _failures(attempts: list[SeenAttempt]) -> tuple[FailedAttempt, ...]:
    return tuple(
        FailedAttempt(
            attempt=one.attempt,
            reason=Reason(one.outcome),
            at=as_instant(one.ended_at),
            started_at=_plain(one.started_at),
            node=one.node,
            error=one.error,
        )
        for one in attempts
        if one.outcome in _REASONS and one.ended_at is not None
    )
