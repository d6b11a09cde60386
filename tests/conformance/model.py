"""The engine's rules in plain lists: what any store must agree with.

Simple and slow on purpose: room is counted over what runs, every time anew, and a claim is judged
by looking at all tasks. The model does not foretell which lane a claim begins with, for lanes may
share a node in several fair ways; it says which tasks could run, and then checks what was taken.

Nodes are known by a label for each incarnation, in the order they registered; tasks by their id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import msgspec

from taskyard.domain.admission import interleave
from taskyard.domain.clock import Instant, micros, seconds
from taskyard.domain.errors import IllegalTransition, NotFound, StaleAttempt
from taskyard.domain.explain import Explanation, Facts, FullKey, ServingNode, explain
from taskyard.domain.lane import KeyRule, KeyRules, Lane, LaneChange
from taskyard.domain.node import NewNode, Node, NodeState, may_serve
from taskyard.domain.outcome import LostRun, Verdict, decide_lost, heed
from taskyard.domain.retention import Retention
from taskyard.domain.state import TERMINAL, Reason, State, require, require_revivable
from taskyard.domain.task import (
    Duplicate,
    Enqueue,
    Enqueued,
    FailedAttempt,
    NewTask,
    Progress,
    Task,
    Until,
)
from taskyard.store.port import Cancellation, Ending, Promoted

WAITING = (State.PENDING, State.QUEUED)
_AUDITED = (Reason.TIMEOUT, Reason.LOST, Reason.POISON, Reason.RESCUED)


@dataclass
class ModelTask:
    new: NewTask
    no: int
    seq: int
    priority: int
    created_at: Instant
    run_at: Instant
    deadline: Instant | None
    state: State
    reason: Reason = Reason.CREATED
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
    failures: tuple[FailedAttempt, ...] = ()

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
        return self.priority, self.seq

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
            payload=self.new.payload,
            state=self.state,
            reason=self.reason,
            keys=self.keys,
            group=self.new.group,
            dedup=self.new.dedup.key if self.new.dedup else None,
            requires=tuple(sorted(self.new.requires)),
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
            result=self.result,
            error=self.failures[-1].error if broken else None,
            failures=self.failures,
        )


@dataclass
class ModelLane:
    capacity: int | None = None
    paused: bool = False
    paused_reason: str | None = None


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


@dataclass
class Model:
    tasks: dict[str, ModelTask] = field(default_factory=dict)
    lanes: dict[str, ModelLane] = field(default_factory=dict)
    nodes: dict[str, ModelNode] = field(default_factory=dict)  # by label, oldest first
    rules: dict[str, int] = field(default_factory=dict)
    dedup: dict[str, str] = field(default_factory=dict)  # key -> id of the task that keeps it
    duties: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    audit: list[Noted] = field(default_factory=list)
    paused: bool = False
    now: Instant = 0
    _seq: int = 0

    # --- what happens to tasks ---

    def enqueue(
        self, tasks: Sequence[NewTask], *, by: tuple[str, int] | None = None
    ) -> list[Enqueue]:
        if by is not None and not self.accepts(*by):
            raise StaleAttempt
        return [self._enqueue(task) for task in tasks]

    def _enqueue(self, task: NewTask) -> Enqueue:
        self.lane(task.lane)
        if task.id in self.tasks:
            return Duplicate(task.id)
        if task.dedup is not None:
            keeper = self.dedup.setdefault(task.dedup.key, task.id)
            if keeper != task.id:
                return Duplicate(keeper)
        seq = self._next_seq()
        run_at = self.now if task.run_at is None else task.run_at
        if task.delay is not None:
            run_at = self.now + micros(task.delay)
        self.tasks[task.id] = ModelTask(
            new=task,
            no=seq,
            seq=seq,
            priority=task.priority,
            created_at=self.now,
            run_at=run_at,
            deadline=task.deadline,
            state=State.QUEUED if run_at <= self.now else State.PENDING,
        )
        return Enqueued(task.id)

    def claim(
        self,
        label: str,
        taken: Sequence[tuple[str, int]],
        *,
        number: int = 0,
        room: int | None = None,
        ahead: Collection[str] = (),
    ) -> None:
        """Check and apply what a store gave a node: (id, attempt) in the order it was given."""
        now = [task_id for task_id, _ in taken if task_id not in ahead]
        assert room is None or len(now) <= room, f"{len(now)} were given, {room} asked for"
        for task_id, attempt in taken:
            task = self.tasks[task_id]
            may = self.may_go_ahead if task_id in ahead else self.may_run
            assert may(task, label), f"{task} was claimed but may not run on {label}"
            require(task.id, task.state, State.RUNNING, Reason.CLAIMED)
            task.state, task.reason = State.RUNNING, Reason.CLAIMED
            task.attempt += 1
            assert task.attempt == attempt
            task.runs_on, task.node = label, self.nodes[label].about.id
            task.request = self.nodes[label].last_request = number
            task.started_at = None if task_id in ahead else self.now
            if task.new.dedup is not None and task.new.dedup.until is Until.START:
                self._free_dedup(task)
        self._check_order(label, now, frozenset(ahead))

    def finish(self, verdict: Verdict) -> State | None:
        """The state it got, or None for a stale one, which changes nothing."""
        if not self.accepts(verdict.id, verdict.attempt):
            return None
        task = self.tasks[verdict.id]
        final = heed(verdict, task.asked)
        require(task.id, task.state, final.state, final.reason)
        if final.error is not None:
            task.failures += (
                FailedAttempt(
                    task.attempt, final.reason, self.now, task.started_at, task.node, final.error
                ),
            )
        task.state, task.reason = final.state, final.reason
        task.charged += final.charge
        task.losses += final.losses
        task.runs_on = task.request = task.asked = None
        task.result = final.result
        if final.reason in _AUDITED:
            self._note("system", final.reason, f"task:{task.id}", final.state)
        if final.state in TERMINAL:
            self._end(task)
            return final.state
        task.started_at = None
        if not final.keeps_place:
            task.seq = self._next_seq()
        if final.delay is not None:
            task.run_at = self.now + micros(final.delay)
            if final.delay <= 0:
                task.state, task.reason = State.QUEUED, Reason.DUE
        return final.state

    def mark_started(self, task_id: str, attempt: int) -> None:
        if self.accepts(task_id, attempt) and self.tasks[task_id].started_at is None:
            self.tasks[task_id].started_at = self.now

    def report(self, task_id: str, attempt: int, progress: Progress) -> bool:
        if not self.accepts(task_id, attempt):
            return False
        self.tasks[task_id].progress = progress
        return True

    def promote(self) -> Promoted:
        due = [task for task in self.in_state(State.PENDING) if task.run_at <= self.now]
        for task in due:
            task.state, task.reason = State.QUEUED, Reason.DUE
        left = [task.run_at for task in self.in_state(State.PENDING)]
        return Promoted(len(due), min(left, default=None))

    def expire(self, task_id: str) -> None:
        task = self.tasks[task_id]
        assert self.late(task)
        task.state, task.reason = State.FAILED, Reason.EXPIRED
        self._end(task)
        self._note("system", "expired", f"task:{task.id}", "deadline passed")

    def expire_all(self) -> int:
        late = [task.id for task in self.tasks.values() if self.late(task)]
        for task_id in late:
            self.expire(task_id)
        return len(late)

    def prune(self, retention: Retention, *, actor: str = "ann") -> list[str]:
        """The ids of those that have gone."""
        gone = [task.id for task in self.in_state(*TERMINAL) if self._kept_enough(task, retention)]
        for task_id in gone:
            del self.tasks[task_id]
        if gone:
            self._note(actor, "prune", "yard", str(len(gone)))
        return gone

    def _kept_enough(self, task: ModelTask, retention: Retention) -> bool:
        assert task.ended_at is not None
        age = retention.ages(task.state).of(task.lane, task.kind)
        return task.ended_at <= self.now - age

    # --- what operators do ---

    def cancel(self, task_id: str, *, actor: str = "ann") -> Cancellation:
        task = self.task(task_id)
        require(task.id, task.state, State.CANCELLED, Reason.OPERATOR)
        if task.state is State.RUNNING:
            task.asked, answer = "cancel", Cancellation.ASKED
        else:
            task.state, task.reason, answer = State.CANCELLED, Reason.OPERATOR, Cancellation.DONE
            self._end(task)
        self._note(actor, "cancel", f"task:{task_id}", answer)
        return answer

    def retry(self, task_id: str, *, actor: str = "ann") -> None:
        task = self.task(task_id)
        require_revivable(task.id, task.state)
        if task.new.dedup is not None:
            if task.new.dedup.key in self.dedup:
                raise IllegalTransition("another task keeps its dedup key")
            self.dedup[task.new.dedup.key] = task.id
        self._note(actor, "retry", f"task:{task_id}", f"was {task.state}")
        task.state, task.reason = State.QUEUED, Reason.OPERATOR
        task.charged = task.losses = 0
        task.seq, task.run_at, task.deadline = self._next_seq(), self.now, None
        task.started_at = task.ended_at = task.node = task.result = None

    def prioritize(self, task_id: str, priority: int, *, actor: str = "ann") -> None:
        task = self.task(task_id)
        if task.state not in WAITING:
            raise IllegalTransition("it waits for nothing")
        detail = f"{task.priority} to {priority}"
        task.priority = priority
        self._note(actor, "prioritize", f"task:{task_id}", detail)

    def set_lane(self, name: str, change: LaneChange, *, actor: str = "ann") -> Lane:
        lane = self.lane(name)
        if change.capacity is not msgspec.UNSET:
            lane.capacity = change.capacity
            self._note(actor, "set_capacity", f"lane:{name}", str(change.capacity))
        if change.paused is not msgspec.UNSET:
            lane.paused, lane.paused_reason = change.paused, change.paused_reason
            action = "pause" if change.paused else "resume"
            self._note(actor, action, f"lane:{name}", change.paused_reason or "")
        return self.seen_lane(name)

    def set_rule(self, pattern: str, limit: int | None, *, actor: str = "ann") -> None:
        self.rules.pop(pattern, None)
        if limit is not None:
            self.rules[pattern] = limit
        detail = "removed" if limit is None else f"limit {limit}"
        self._note(actor, "set_key_rule", f"key:{pattern}", detail)

    def pause_yard(self, paused: bool, *, actor: str = "ann") -> None:
        self.paused = paused
        self._note(actor, "pause" if paused else "resume", "yard", "")

    # --- what happens to nodes ---

    def register(self, label: str, node: NewNode) -> None:
        until = self.now + micros(node.lease_seconds)
        self.nodes[label] = ModelNode(node, self.now, self.now, until)
        self._note("system", "register", f"node:{node.id}", f"lease {label}")

    def beat(self, label: str) -> None:
        """A lease that ran out but was not rescued yet comes back to life."""
        node = self.nodes[label]
        node.until, node.seen_at = self.now + micros(node.about.lease_seconds), self.now

    def drain(self, label: str) -> None:
        if label in self.nodes:
            self.nodes[label].state = NodeState.DRAINING

    def retire(self, label: str) -> None:
        for task in self.running_on(label):
            self.finish(_released(task))
        self._forget(label)

    def rescue(self, dead: Collection[str], *, ended: bool = False) -> dict[str, list[Verdict]]:
        """What became of the tasks of each node that was taken back, by label."""
        gone = [
            label
            for label, node in self.nodes.items()
            if label in dead or (ended and node.until <= self.now)
        ]
        rescued: dict[str, list[Verdict]] = {}
        for label in gone:
            verdicts = [decide_lost(_lost(task)) for task in self.running_on(label)]
            for verdict in verdicts:
                self.finish(verdict)
            if verdicts:
                node = self.nodes[label].about.id
                self._note("system", "rescue", f"node:{node}", f"{len(verdicts)} tasks")
            self._forget(label)
            rescued[label] = verdicts
        return rescued

    def take_duty(self, name: str, label: str, span: float) -> bool:
        holder, until = self.duties.get(name, (label, 0))
        if holder != label and until > self.now:
            return False
        self.duties[name] = (label, self.now + micros(span))
        return True

    # --- what holds ---

    def task(self, task_id: str) -> ModelTask:
        if task_id not in self.tasks:
            raise NotFound(f"there is no task {task_id}")
        return self.tasks[task_id]

    def lane(self, name: str) -> ModelLane:
        return self.lanes.setdefault(name, ModelLane())

    def in_state(self, *states: State) -> list[ModelTask]:
        return [task for task in self.tasks.values() if task.state in states]

    def running(self) -> list[ModelTask]:
        return self.in_state(State.RUNNING)

    def running_on(self, label: str) -> list[ModelTask]:
        return [task for task in self.running() if task.runs_on == label]

    def accepts(self, task_id: str, attempt: int) -> bool:
        task = self.tasks.get(task_id)
        return task is not None and task.state is State.RUNNING and task.attempt == attempt

    def late(self, task: ModelTask) -> bool:
        waiting = task.state in WAITING
        return waiting and task.deadline is not None and task.deadline <= self.now

    def holders(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for task in self.running():
            for key in task.keys:
                found.setdefault(key, set()).add(task.id)
        return found

    def limit(self, key: str) -> int:
        rules = (KeyRule(pattern, limit) for pattern, limit in self.rules.items())
        return KeyRules(rules).limit(key)

    def superseded(self, label: str) -> bool:
        named = [at for at, node in self.nodes.items() if node.about.id == self._id_of(label)]
        return named[-1] != label

    def refusal(self, label: str) -> str | None:
        """Why this incarnation may claim nothing."""
        node = self.nodes.get(label)
        if node is None:
            return "this lease has ended"
        if node.until <= self.now:
            return "this lease has run out"
        if self.superseded(label):
            return "a newer incarnation of this node has registered"
        if node.state is not NodeState.READY:
            return f"this node is {node.state}"
        return "the yard is paused" if self.paused else None

    def serves(self, label: str, task: ModelTask) -> bool:
        about = self.nodes[label].about
        able = frozenset(about.capabilities)
        return may_serve(frozenset(about.kinds), able, task.kind, task.new.requires)

    def free_slots(self, label: str) -> int:
        """Those claimed ahead take no slot until they have started."""
        started = [task for task in self.running_on(label) if task.started_at is not None]
        return self.nodes[label].about.slots - len(started)

    def may_run(
        self,
        task: ModelTask,
        label: str,
        *,
        without: Collection[str] = (),
        also: Collection[ModelTask] = (),
    ) -> bool:
        """Whether this node could claim this task now.

        As if `without` did not run, and as if `also` had just been claimed by it.
        """
        if not self._is_offered(task, label):
            return False
        running = [other for other in self.running() if other.id not in without]
        mine = [t for t in running if t.runs_on == label and t.started_at is not None]
        if len(mine) + len(also) >= self.nodes[label].about.slots:
            return False
        running += also
        capacity = self.lane(task.lane).capacity
        if capacity is not None and sum(t.lane == task.lane for t in running) >= capacity:
            return False
        held = Counter(key for other in running for key in other.keys)
        return all(held[key] < self.limit(key) for key in task.keys)

    def may_go_ahead(self, task: ModelTask, label: str) -> bool:
        """Whether this node could claim this task beyond its slots now."""
        if task.keys or task.suspect or self.lane(task.lane).capacity is not None:
            return False
        return self._is_offered(task, label)

    def could_run(self) -> Iterator[tuple[ModelTask, str]]:
        """Every waiting task that could run now, and where."""
        for task in self.in_state(State.QUEUED):
            for label in self.nodes:
                if self.may_run(task, label):
                    yield task, label

    def offered(self, label: str) -> dict[str, list[ModelTask]]:
        """What a node might claim were there room, by lane, in the lane's order."""
        lanes: dict[str, list[ModelTask]] = {}
        for task in sorted(self.in_state(State.QUEUED), key=lambda task: task.place):
            if self._is_offered(task, label):
                lanes.setdefault(task.lane, []).append(task)
        return lanes

    def first_eligible(self, label: str, room: int) -> list[str] | None:
        """What a claim must bring, in order; None if it depends on whose lane's turn it is."""
        lanes = self.offered(label)
        if len(lanes) > 1:
            return None
        chosen: list[ModelTask] = []
        for task in next(iter(lanes.values()), []):
            if len(chosen) < room and self.may_run(task, label, also=chosen):
                chosen.append(task)
        return [task.id for task in chosen]

    def fair_turns(self, label: str) -> list[list[str]] | None:
        """The orders in which lanes may take turns where nothing limits a task; else None."""
        lanes = self.offered(label)
        plain = all(self.may_go_ahead(task, label) for tasks in lanes.values() for task in tasks)
        if not plain or any(map(self.late, self.in_state(State.QUEUED))):
            return None
        queues = [[task.id for task in tasks] for tasks in lanes.values()]
        return [list(interleave(order)) for order in permutations(queues)]

    def explain(self, task_id: str) -> Explanation:
        """With all that wait before it in its lane; a store may know that some cannot run."""
        task = self.task(task_id)
        holders = self.holders()
        full = [
            FullKey(key, self.limit(key), self._in_order(holders.get(key, set())))
            for key in task.keys
            if len(holders.get(key, set())) >= self.limit(key)
        ]
        servers = [
            ServingNode(node.state, node.about.slots - len(self.running_on(label)))
            for label, node in self.nodes.items()
            if node.until > self.now and not self.superseded(label) and self.serves(label, task)
        ]
        return explain(
            Facts(
                now=self.now,
                task=task.seen(),
                lane=self.seen_lane(task.lane),
                yard_paused=self.paused,
                full_keys=full,
                nodes=servers,
                before=len(self.before(task)),
            )
        )

    def before(self, task: ModelTask) -> list[ModelTask]:
        queued = self.in_state(State.QUEUED)
        return [other for other in queued if other.lane == task.lane and other.place < task.place]

    def seen_lane(self, name: str) -> Lane:
        lane = self.lane(name)
        states = Counter(task.state for task in self.tasks.values() if task.lane == name)
        return Lane(
            name=name,
            capacity=lane.capacity,
            paused=lane.paused,
            paused_reason=lane.paused_reason,
            running=states[State.RUNNING],
            queued=states[State.QUEUED],
            pending=states[State.PENDING],
        )

    def seen_node(self, label: str, lease: int) -> Node:
        node = self.nodes[label]
        return Node(
            id=node.about.id,
            lease=lease,
            state=node.state,
            kinds=node.about.kinds,
            slots=node.about.slots,
            running=len(self.running_on(label)),
            capabilities=node.about.capabilities,
            labels=node.about.labels,
            process=node.about.process,
            registered_at=node.registered_at,
            seen_at=node.seen_at,
            lease_seconds=node.about.lease_seconds,
            lease_left=seconds(node.until - self.now),
        )

    def endings(self) -> list[Ending]:
        return [
            Ending(
                task.id,
                task.state,
                task.result,
                task.failures[-1].error if task.failures and task.state is State.FAILED else None,
            )
            for task in self.in_state(*TERMINAL)
        ]

    def _is_offered(self, task: ModelTask, label: str) -> bool:
        if task.state is not State.QUEUED or self.late(task) or self.lane(task.lane).paused:
            return False
        return self.refusal(label) is None and self.serves(label, task)

    def _check_order(self, label: str, now: Sequence[str], ahead: frozenset[str]) -> None:
        """Nothing was taken before a task of its lane that stood before it and could run."""
        for waiting in self.in_state(State.QUEUED):
            behind = {
                task_id
                for task_id in (*now, *ahead)
                if self.tasks[task_id].lane == waiting.lane
                and self.tasks[task_id].place > waiting.place
            }
            started = behind - ahead
            assert not (started and self.may_run(waiting, label, without=started)), (
                f"{started} went before {waiting}"
            )
            assert not (behind & ahead and self.may_go_ahead(waiting, label)), (
                f"{behind & ahead} went ahead before {waiting}"
            )

    def _in_order(self, ids: Collection[str]) -> list[str]:
        return sorted(ids, key=lambda task_id: self.tasks[task_id].no)

    def _id_of(self, label: str) -> str:
        return self.nodes[label].about.id

    def _end(self, task: ModelTask) -> None:
        task.ended_at = self.now
        self._free_dedup(task)

    def _free_dedup(self, task: ModelTask) -> None:
        if task.new.dedup is not None and self.dedup.get(task.new.dedup.key) == task.id:
            del self.dedup[task.new.dedup.key]

    def _forget(self, label: str) -> None:
        self.nodes.pop(label, None)
        self.duties = {name: held for name, held in self.duties.items() if held[0] != label}

    def _note(self, actor: str, action: str, subject: str, detail: str) -> None:
        self.audit.append(Noted(self.now, actor, action, subject, detail))

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq


def _lost(task: ModelTask) -> LostRun:
    return LostRun(
        no=task.no,
        id=task.id,
        attempt=task.attempt,
        charged=task.charged,
        max_charged=task.new.max_charged,
        losses=task.losses,
        started=task.started_at is not None,
        asked=task.asked,
    )


def _released(task: ModelTask) -> Verdict:
    return Verdict(
        no=task.no,
        id=task.id,
        attempt=task.attempt,
        state=State.QUEUED,
        reason=Reason.RELEASED,
        keeps_place=True,
    )
