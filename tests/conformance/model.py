"""The engine's rules in plain lists: what any store must agree with.

It does not foretell a claim, for lanes may share a node in several fair ways; it says which
tasks could run, and then checks what the store took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from taskyard.domain.admission import Candidate, Room, admit
from taskyard.domain.clock import Instant
from taskyard.domain.explain import Condition
from taskyard.domain.lane import KeyRule, KeyRules
from taskyard.domain.outcome import LostRun, Verdict, decide_lost, heed
from taskyard.domain.state import REVIVABLE, TERMINAL, Reason, State, require
from taskyard.domain.task import NewTask


@dataclass
class ModelTask:
    id: str
    no: int
    kind: str
    lane: str
    priority: int
    seq: int
    keys: tuple[str, ...]
    max_charged: int
    deadline: Instant | None
    run_at: Instant
    state: State = State.QUEUED
    reason: Reason = Reason.CREATED
    attempt: int = 0
    charged: int = 0
    losses: int = 0
    node: str | None = None
    asked: str | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.priority, self.seq


@dataclass
class ModelLane:
    capacity: int | None = None
    paused: bool = False


@dataclass
class ModelNode:
    slots: int
    kinds: frozenset[str]


@dataclass
class Model:
    tasks: dict[str, ModelTask] = field(default_factory=dict)
    lanes: dict[str, ModelLane] = field(default_factory=dict)
    nodes: dict[str, ModelNode] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    paused: bool = False
    now: Instant = 0
    _seq: int = 0

    # --- what happens ---

    def enqueue(self, task: NewTask, *, no: int, run_at: Instant) -> None:
        self.lane(task.lane)
        self.tasks[task.id] = ModelTask(
            id=task.id,
            no=no,
            kind=task.kind,
            lane=task.lane,
            priority=task.priority,
            seq=self._next_seq(),
            keys=task.keys,
            max_charged=task.max_charged,
            deadline=task.deadline,
            run_at=run_at,
            state=State.QUEUED if run_at <= self.now else State.PENDING,
        )

    def claim(self, node: str, taken: Sequence[tuple[str, int]]) -> None:
        """Check and apply what a store gave a node: (id, attempt) in the order it was given."""
        for task_id, attempt in taken:
            task = self.tasks[task_id]
            assert self.may_run(task, node), f"{task} was claimed but may not run on {node}"
            require(task.id, task.state, State.RUNNING, Reason.CLAIMED)
            task.state, task.reason = State.RUNNING, Reason.CLAIMED
            task.attempt += 1
            task.node = node
            assert task.attempt == attempt
        self._check_order(node, frozenset(task_id for task_id, _ in taken))

    def finish(self, verdict: Verdict) -> None:
        task = self.tasks[verdict.id]
        assert task.attempt == verdict.attempt
        final = heed(verdict, task.asked)
        require(task.id, task.state, final.state, final.reason)
        task.state, task.reason = final.state, final.reason
        task.charged += final.charge
        task.losses += final.losses
        task.asked = None
        if final.state not in TERMINAL and not final.keeps_place:
            task.seq = self._next_seq()
        if final.delay is not None:
            task.run_at = self.now + round(final.delay * 1_000_000)
            if final.delay <= 0:
                task.state, task.reason = State.QUEUED, Reason.DUE

    def rescue(self, node: str) -> None:
        for task in self.running():
            if task.node == node:
                self.finish(decide_lost(_lost(task)))

    def cancel(self, task_id: str) -> None:
        task = self.tasks[task_id]
        if task.state is State.RUNNING:
            task.asked = "cancel"
        else:
            task.state, task.reason = State.CANCELLED, Reason.OPERATOR

    def retry(self, task_id: str) -> None:
        task = self.tasks[task_id]
        assert task.state in REVIVABLE
        task.state, task.reason = State.QUEUED, Reason.OPERATOR
        task.charged = task.losses = 0
        task.seq, task.deadline = self._next_seq(), None

    def prioritize(self, task_id: str, priority: int) -> None:
        self.tasks[task_id].priority = priority

    def set_rule(self, pattern: str, limit: int | None) -> None:
        self.rules.pop(pattern, None)
        if limit is not None:
            self.rules[pattern] = limit

    def promote(self) -> None:
        for task in self.in_state(State.PENDING):
            if task.run_at <= self.now:
                task.state, task.reason = State.QUEUED, Reason.DUE

    def expire(self, task_id: str) -> None:
        task = self.tasks[task_id]
        assert self.late(task)
        task.state, task.reason = State.FAILED, Reason.EXPIRED

    # --- what holds ---

    def lane(self, name: str) -> ModelLane:
        return self.lanes.setdefault(name, ModelLane())

    def in_state(self, *states: State) -> list[ModelTask]:
        return [task for task in self.tasks.values() if task.state in states]

    def running(self) -> list[ModelTask]:
        return self.in_state(State.RUNNING)

    def late(self, task: ModelTask) -> bool:
        waiting = task.state in (State.PENDING, State.QUEUED)
        return waiting and task.deadline is not None and task.deadline <= self.now

    def holders(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for task in self.running():
            for key in task.keys:
                found.setdefault(key, set()).add(task.id)
        return found

    def may_run(
        self, task: ModelTask, node: str, *, without: AbstractSet[str] = frozenset()
    ) -> bool:
        """Whether this task could be claimed by this node now, were `without` not running."""
        lane = self.lane(task.lane)
        if task.state is not State.QUEUED or self.late(task) or self.paused or lane.paused:
            return False
        if task.kind not in self.nodes[node].kinds:
            return False
        candidate = Candidate(task.no, 0, task.priority, task.seq, task.keys)
        room = self._room(task, node, without)
        return admit([candidate], room).admitted == [candidate]

    def could_run(self) -> Iterator[tuple[ModelTask, str]]:
        """Every waiting task that could run now, and where."""
        for task in self.in_state(State.QUEUED):
            for node in self.nodes:
                if self.may_run(task, node):
                    yield task, node

    def waits_for(self, task: ModelTask) -> set[Condition]:
        """Which conditions of a claim keep a queued task from running anywhere."""
        waits: set[Condition] = set()
        lane = self.lane(task.lane)
        serving = [name for name, node in self.nodes.items() if task.kind in node.kinds]
        rooms = [self._room(task, name, frozenset()) for name in serving]
        if self.late(task):
            waits.add(Condition.STATE)
        lane_room = self._lane_room(task.lane, frozenset())
        if self.paused or lane.paused or (lane_room is not None and lane_room <= 0):
            waits.add(Condition.LANE)
        if any(free <= 0 for free in self._key_room(task.keys, frozenset()).values()):
            waits.add(Condition.KEYS)
        if all(room.slots <= 0 for room in rooms):
            waits.add(Condition.NODE)
        return waits

    def _check_order(self, node: str, taken: frozenset[str]) -> None:
        """Nothing was taken before a task of its lane that stood before it and could run."""
        for waiting in self.in_state(State.QUEUED):
            behind = {
                task_id
                for task_id in taken
                if self.tasks[task_id].lane == waiting.lane
                and self.tasks[task_id].place > waiting.place
            }
            if behind:
                assert not self.may_run(waiting, node, without=behind), (
                    f"{behind} went before {waiting}"
                )

    def _room(self, task: ModelTask, node: str, without: AbstractSet[str]) -> Room:
        busy = sum(t.node == node and t.id not in without for t in self.running())
        return Room(
            slots=self.nodes[node].slots - busy,
            lanes={0: self._lane_room(task.lane, without)},
            keys=self._key_room(task.keys, without),
        )

    def _lane_room(self, lane: str, without: AbstractSet[str]) -> int | None:
        capacity = self.lane(lane).capacity
        if capacity is None:
            return None
        return capacity - sum(t.lane == lane and t.id not in without for t in self.running())

    def _key_room(self, keys: tuple[str, ...], without: AbstractSet[str]) -> dict[str, int]:
        limits = KeyRules(KeyRule(pattern, limit) for pattern, limit in self.rules.items())
        held = Counter(k for t in self.running() if t.id not in without for k in t.keys)
        return {key: limits.limit(key) - held[key] for key in keys}

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq


def _lost(task: ModelTask) -> LostRun:
    return LostRun(
        no=task.no,
        id=task.id,
        attempt=task.attempt,
        charged=task.charged,
        max_charged=task.max_charged,
        losses=task.losses,
        started=True,
        asked=task.asked,
    )
