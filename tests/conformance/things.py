"""Tasks, lanes, keys and nodes as the model keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.lane import Order
from taskyard.domain.node import NewNode, NodeState
from taskyard.domain.rate import Rate
from taskyard.domain.state import Reason, State
from taskyard.domain.task import FailedAttempt, NewTask, Progress, Task


@dataclass
class ModelTask:
    new: NewTask
    no: int
    seq: int
    priority: int
    payload: str
    created_at: Instant
    run_at: Instant
    deadline: Instant | None
    state: State
    reason: Reason = Reason.CREATED
    rank: int = 0  # since it was last queued
    depends_on: tuple[str, ...] = ()
    dependencies: frozenset[int] = frozenset()  # their numbers: an id may be given again
    unmet: set[int] = field(default_factory=set)  # of these, those that have not ended
    attempt: int = 0
    charged: int = 0
    losses: int = 0
    runs_on: str | None = None  # the label of the incarnation that runs it
    request: int | None = None  # the claim that took it
    node: str | None = None
    asked: str | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    result: str | None = None
    progress: Progress | None = None
    checkpoint: str | None = None
    failures: tuple[FailedAttempt, ...] = ()
    trace: str | None = None

    @property
    def id(self) -> str:
        return self.new.id

    @property
    def kind(self) -> str:
        return self.new.kind

    @property
    def lane(self) -> str:
        return self.new.lane

    @property
    def keys(self) -> tuple[str, ...]:
        return self.new.keys

    @property
    def place(self) -> tuple[int, int]:
        return self.rank, self.seq

    @property
    def route(self) -> tuple[str, tuple[str, ...]]:
        return self.kind, tuple(sorted(self.new.requires))

    @property
    def suspect(self) -> bool:
        return self.reason is Reason.RESCUED

    def seen(self) -> Task:
        """As a store would show it."""
        broken = self.failures and self.state in (State.FAILED, State.PENDING)
        return Task(
            no=self.no,
            id=self.id,
            kind=self.kind,
            lane=self.lane,
            priority=self.priority,
            seq=self.seq,
            payload=self.payload,
            state=self.state,
            reason=self.reason,
            keys=self.keys,
            group=self.new.group,
            dedup=self.new.dedup.key if self.new.dedup else None,
            requires=tuple(sorted(self.new.requires)),
            depends_on=self.depends_on,
            on_failure=self.new.on_failure,
            waits_for=len(self.unmet),
            attempt=self.attempt,
            charged=self.charged,
            max_charged=self.new.max_charged,
            losses=self.losses,
            timeout=self.new.timeout,
            created_at=self.created_at,
            run_at=self.run_at,
            deadline=self.deadline,
            started_at=self.started_at,
            ended_at=self.ended_at,
            node=self.node,
            asked=self.asked,
            progress=self.progress,
            checkpoint=self.checkpoint,
            result=self.result,
            error=self.failures[-1].error if broken else None,
            failures=self.failures,
            trace=self.trace,
        )


@dataclass
class Bucket:
    """Of a rate: of a lane, or of a key."""

    full_at: Instant = 0
    opens_at: Instant | None = None  # when someone is to be told that it has a token


@dataclass
class ModelLane:
    capacity: int | None = None
    max_depth: int | None = None
    rate: Rate | None = None
    bucket: Bucket = field(default_factory=Bucket)
    order: Order = Order.PRIORITY
    ageing: float | None = None
    paused: bool = False
    paused_reason: str | None = None
    paused_until: Instant | None = None
    exact: bool = True  # the model knows the place of each of its tasks


@dataclass
class ModelNode:
    about: NewNode
    registered_at: Instant
    seen_at: Instant
    until: Instant
    state: NodeState = NodeState.READY
    last_request: int = 0


class Noted(msgspec.Struct, frozen=True, order=True):
    """A line of the audit trail."""

    at: Instant
    actor: str
    action: str
    subject: str
    detail: str
