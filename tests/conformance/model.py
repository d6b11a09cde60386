"""The engine's rules in plain lists: what any store must agree with.

Simple and slow on purpose: room is counted over what runs, every time anew, and a claim is judged
by looking at all tasks. The model does not foretell which lane a claim begins with, for lanes may
share a node in several fair ways; it says which tasks could run, and then checks what was taken.

Nor does it foretell every place in a fair lane: who of a group gets which of its turns is decided
as far as a claim looks, and where keys or several routes are concerned that is the store's
business. There the model checks what holds all the same: the order inside each group.

Nodes are known by a label for each incarnation, in the order they registered; tasks by their id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import msgspec

from taskyard.domain.admission import interleave
from taskyard.domain.clock import Instant, micros, seconds
from taskyard.domain.errors import IllegalTransition, InvalidOption, NotFound, StaleAttempt
from taskyard.domain.explain import Explanation, Facts, FullKey, ServingNode, explain
from taskyard.domain.lane import KeyRule, KeyRules, Lane, LaneChange, Order
from taskyard.domain.node import NewNode, Node, NodeState, may_serve
from taskyard.domain.order import next_round, rank
from taskyard.domain.outcome import LostRun, Verdict, decide_lost, heed
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Retention
from taskyard.domain.state import TERMINAL, Reason, State, require, require_revivable
from taskyard.domain.state import WAITING as NOT_STARTED
from taskyard.domain.task import (
    Clash,
    Dedup,
    Duplicate,
    Enqueue,
    Enqueued,
    FailedAttempt,
    NewTask,
    OnFailure,
    Progress,
    Refused,
    Until,
)
from taskyard.store.port import Cancellation, Ending, Pausing
from tests.conformance.things import Bucket, ModelLane, ModelNode, ModelTask, Noted

WAITING = (State.PENDING, State.QUEUED)
_AUDITED = (Reason.TIMEOUT, Reason.LOST, Reason.POISON, Reason.RESCUED)


@dataclass
class Model:
    tasks: dict[str, ModelTask] = field(default_factory=dict)
    lanes: dict[str, ModelLane] = field(default_factory=dict)
    nodes: dict[str, ModelNode] = field(default_factory=dict)  # by label, oldest first
    rules: dict[str, KeyRule] = field(default_factory=dict)
    buckets: dict[str, Bucket] = field(default_factory=dict)  # of keys with a rate
    dedup: dict[str, str] = field(default_factory=dict)  # key -> id of the task that keeps it
    duties: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    audit: list[Noted] = field(default_factory=list)
    paused: bool = False
    paused_until: Instant | None = None
    now: Instant = 0
    promoted_at: Instant = 0  # when those who wait for the rate of a key were last looked at
    _seq: int = 0

    # --- what happens to tasks ---

    def enqueue(
        self, tasks: Sequence[NewTask], *, by: tuple[str, int] | None = None
    ) -> list[Enqueue]:
        if by is not None and not self.accepts(*by):
            raise StaleAttempt
        names: dict[str, str | None] = {}  # what the ids of this call stand for; None: refused
        saved: list[Enqueue] = []
        before = dict(self.tasks), dict(self.dedup), self._seq
        try:
            for task in tasks:
                answer = self._enqueue(task, names)
                names[task.id] = None if isinstance(answer, Refused) else answer.id
                saved.append(answer)
        except InvalidOption:
            self.tasks, self.dedup, self._seq = before
            raise
        return saved

    def _enqueue(self, task: NewTask, names: dict[str, str | None]) -> Enqueue:
        self.lane(task.lane)
        if task.id in self.tasks:
            return Duplicate(task.id)
        if task.dedup is not None and task.dedup.key in self.dedup:
            return self._clash(task, task.dedup)
        wanted = [names.get(name, name) for name in task.depends_on]
        for name in wanted:
            if name is not None and name not in self.tasks:
                raise InvalidOption(f"depends_on names task {name}")
        known = [name for name in wanted if name is not None]
        if len(known) < len(wanted):
            return Refused("it depends on a task that was refused")
        refused = self._full(task.lane) or self._held(task)
        if refused is not None and not self._gives_up(task, known):
            return Refused(refused)
        self._save(task, tuple(dict.fromkeys(known)))
        return Enqueued(task.id)

    def _clash(self, task: NewTask, dedup: Dedup) -> Duplicate:
        other = self.tasks[self.dedup[dedup.key]]
        if dedup.clash is Clash.KEEP or other.kind != task.kind or other.state not in NOT_STARTED:
            return Duplicate(other.id)
        other.payload, other.trace = task.payload, task.trace
        if dedup.clash is Clash.DEBOUNCE and other.state is State.PENDING and not other.unmet:
            other.run_at = max(other.run_at, self._due(task))
        return Duplicate(other.id, changed=True)

    def _full(self, name: str) -> str | None:
        most = self.lane(name).max_depth
        waiting = sum(task.lane == name for task in self.in_state(*WAITING))
        if most is None or waiting < most:
            return None
        return f"lane {name} is full: {min(waiting, most)} tasks wait, and its max depth is {most}"

    def _held(self, task: NewTask) -> str | None:
        held = (key for key in task.keys if len(self.holders().get(key, ())) >= self.limit(key))
        key = next(held, None) if task.refuse_if_held else None
        return None if key is None else f"key {key} is held"

    def _due(self, task: NewTask) -> Instant:
        if task.delay is not None:
            return self.now + micros(task.delay)
        return self.now if task.run_at is None else task.run_at

    def _save(self, new: NewTask, depends_on: tuple[str, ...]) -> None:
        seq = self._next_seq()
        others = [self.tasks[name] for name in depends_on]
        task = self.tasks[new.id] = ModelTask(
            new=new,
            no=seq,
            seq=seq,
            priority=new.priority,
            payload=new.payload,
            trace=new.trace,
            created_at=self.now,
            run_at=self._due(new),
            deadline=new.deadline,
            state=State.PENDING,
            depends_on=depends_on,
            dependencies=frozenset(other.no for other in others),
            unmet={other.no for other in others if other.state not in TERMINAL},
        )
        if self._gives_up(new, depends_on):
            task.state, task.reason, task.ended_at = State.CANCELLED, Reason.DEPENDENCY, self.now
            return
        if new.dedup is not None:
            self.dedup[new.dedup.key] = new.id
        if not task.unmet and task.run_at <= self.now:
            self._queue(task, Reason.CREATED)

    def _gives_up(self, new: NewTask, depends_on: Sequence[str]) -> bool:
        """Whether one that it depends on has ended badly."""
        ended = any(_ended_badly(self.tasks[name]) for name in depends_on)
        return ended and new.on_failure is OnFailure.CANCEL

    def _queue(self, task: ModelTask, reason: Reason, *, in_place: bool = False) -> None:
        """Give a task its place; one that comes back in place has the one it had."""
        task.state, task.reason = State.QUEUED, reason
        lane = self.lane(task.lane)
        others = [t for t in self.in_state(State.QUEUED, State.RUNNING) if t.lane == task.lane]
        others.remove(task)
        lane.exact = lane.exact or not others
        if lane.order is not Order.FAIR:
            if not in_place or lane.ageing is None:
                task.rank = rank(self.seen_lane(task.lane), task.priority, self.now)
            return
        plain = not task.keys and task.deadline is None
        lane.exact = lane.exact and plain and all(t.route == task.route for t in others)
        if not in_place:
            queued = [t for t in others if t.state is State.QUEUED]
            mine = [t.rank for t in queued if t.new.group == task.new.group]
            present = min((t.rank for t in queued), default=None)
            task.rank = next_round(present, max(mine, default=None))

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
            if self.lane(task.lane).order is Order.FAIR:
                self._take_turn(task, label)
            require(task.id, task.state, State.RUNNING, Reason.CLAIMED)
            task.state, task.reason = State.RUNNING, Reason.CLAIMED
            task.attempt += 1
            assert task.attempt == attempt
            task.runs_on, task.node = label, self.nodes[label].about.id
            task.request = self.nodes[label].last_request = number
            task.started_at = None if task_id in ahead else self.now
            if task.new.dedup is not None and task.new.dedup.until is Until.START:
                self._free_dedup(task)
            self._use_rates(task)
        self._check_order(label, now, frozenset(ahead))

    def _take_turn(self, task: ModelTask, label: str) -> None:
        """Check that it is its group's turn, and that it is the first of its group."""
        lane = self.lane(task.lane)
        ready = [t for t in self.in_state(State.QUEUED) if t.lane == task.lane and t is not task]
        ready = [t for t in ready if self.may_run(t, label, sure=True)]
        mine = [t for t in ready if t.new.group == task.new.group]
        # Those that were parked on a key are woken by their places.
        for other in (one for one in mine if not one.keys):
            assert (task.priority, task.seq) < (other.priority, other.seq), f"{other} is first"
        if not lane.exact:
            return
        holder = min([*mine, task], key=lambda t: t.place)
        for other in ready:
            assert holder.rank <= other.rank, f"it is the turn of {other.new.group}"
        task.rank, holder.rank = holder.rank, task.rank

    def _use_rates(self, task: ModelTask) -> None:
        lane = self.lane(task.lane)
        if lane.rate is not None:
            lane.bucket.full_at = lane.rate.take(lane.bucket.full_at, self.now)
        for key in task.keys:
            rate = self.key_rules().rate(key)
            if rate is not None:
                bucket = self.buckets.setdefault(key, Bucket())
                bucket.full_at = rate.take(bucket.full_at, self.now)

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
        if final.state is State.QUEUED:
            self._queue(task, final.reason, in_place=final.keeps_place)
        elif final.state is State.PENDING and task.run_at <= self.now:
            self._queue(task, Reason.DUE)
        return final.state

    def mark_started(self, task_id: str, attempt: int) -> None:
        if self.accepts(task_id, attempt) and self.tasks[task_id].started_at is None:
            self.tasks[task_id].started_at = self.now

    def report(self, task_id: str, attempt: int, progress: Progress) -> bool:
        if not self.accepts(task_id, attempt):
            return False
        self.tasks[task_id].progress = progress
        return True

    def checkpoint(self, task_id: str, attempt: int, data: str) -> bool:
        if not self.accepts(task_id, attempt):
            return False
        self.tasks[task_id].checkpoint = data
        return True

    def promote(self) -> int:
        """How many tasks, lanes and yards had waited for this moment."""
        due = [t for t in self._timed() if t.run_at <= self.now]
        for task in sorted(due, key=lambda t: (t.run_at, t.no)):
            self._queue(task, Reason.DUE)
        over = [name for name, lane in self.lanes.items() if self._is_over(lane.paused_until)]
        for name in over:
            lane = self.lanes[name]
            lane.paused, lane.paused_reason, lane.paused_until = False, None, None
            self._note("system", "resume", f"lane:{name}", "its time was over")
        yard = self._is_over(self.paused_until)
        if yard:
            self.paused, self.paused_until = False, None
            self._note("system", "resume", "yard", "its time was over")
        self.promoted_at = self.now
        return len(due) + len(over) + yard

    def next_due(self) -> Instant | None:
        """When the next of them will be there; rates are not counted."""
        untils = [lane.paused_until for lane in self.lanes.values()]
        moments = [*(task.run_at for task in self._timed()), *untils, self.paused_until]
        return min((moment for moment in moments if moment is not None), default=None)

    def _timed(self) -> list[ModelTask]:
        return [task for task in self.in_state(State.PENDING) if not task.unmet]

    def _is_over(self, until: Instant | None) -> bool:
        return until is not None and until <= self.now

    def openings(self, parked: Mapping[str, str]) -> list[Instant]:
        """When what keeps a task waiting is the rate of its lane, or of the key that it is parked
        on: when that opens. Who is not parked is so by the claim that comes across it."""
        found: list[Instant] = []
        held = self.holders()
        for task in self.in_state(State.QUEUED):
            lane, key = self.lane(task.lane), parked.get(task.id)
            if self.lane_opens_at(task.lane) is not None and lane.rate is not None:
                found.append(lane.rate.opens_at(lane.bucket.full_at, self.now))
            opens = None if key is None else self.key_opens_at(key)
            if key is not None and opens is not None and len(held.get(key, ())) < self.limit(key):
                found.append(opens)
        return found

    def rated(self) -> int:
        """How many buckets were used."""
        return sum(lane.bucket.full_at > 0 for lane in self.lanes.values()) + len(self.buckets)

    def has_lapsed_pause(self) -> bool:
        """Something was paused until now, and nobody has looked yet."""
        untils = [self.paused_until, *(lane.paused_until for lane in self.lanes.values())]
        return any(map(self._is_over, untils))

    def latest_token(self) -> Instant:
        """When every bucket will be full."""
        lanes = [lane.bucket.full_at for lane in self.lanes.values()]
        return max([*lanes, *(bucket.full_at for bucket in self.buckets.values())], default=0)

    def expire(self, task_id: str) -> None:
        task = self.tasks[task_id]
        assert self.late(task)
        self._expire([task])

    def expire_all(self) -> int:
        late = [task for task in self.tasks.values() if self.late(task)]
        self._expire(late)
        return len(late)

    def _expire(self, late: Sequence[ModelTask]) -> None:
        """All of them, before those who depend on one of them are told."""
        for task in late:
            task.state, task.reason = State.FAILED, Reason.EXPIRED
            self._note("system", "expired", f"task:{task.id}", "deadline passed")
        for task in late:
            self._end(task)

    def prune(self, retention: Retention, *, actor: str = "ann") -> list[str]:
        """The ids of those that have gone."""
        ended = [task for task in self.in_state(*TERMINAL) if self._kept_enough(task, retention)]
        live = [task for task in self.tasks.values() if task.state not in TERMINAL]
        needed = {no for task in live for no in task.dependencies}
        gone = [task.id for task in ended if task.no not in needed]
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
        require(task.id, task.state, State.CANCELLED, by(actor))
        if task.state is State.RUNNING:
            task.asked, answer = "cancel", Cancellation.ASKED
        else:
            task.state, task.reason, answer = State.CANCELLED, by(actor), Cancellation.DONE
            self._end(task)
        self._note(actor, "cancel", f"task:{task_id}", answer)
        return answer

    def pause(self, task_id: str, *, actor: str = "ann") -> Pausing:
        task = self.task(task_id)
        require(task.id, task.state, State.PAUSED, by(actor))
        if task.state is State.RUNNING:
            task.asked, answer = task.asked or "pause", Pausing.ASKED
        else:
            task.state, task.reason, answer = State.PAUSED, by(actor), Pausing.DONE
        self._note(actor, "pause", f"task:{task_id}", answer)
        return answer

    def resume(self, task_id: str, *, actor: str = "ann") -> None:
        task = self.task(task_id)
        detail = "paused"
        if task.state is State.RUNNING and task.asked == "pause":
            task.asked, detail = None, "asked"
        else:
            waits = bool(task.unmet) or task.run_at > self.now
            after = State.PENDING if waits else State.QUEUED
            if task.state is not State.PAUSED:
                raise IllegalTransition("it is not paused")
            require(task.id, task.state, after, by(actor))
            task.state, task.reason = after, by(actor)
            if not waits:
                self._queue(task, by(actor))
        self._note(actor, "resume", f"task:{task_id}", detail)

    def retry(self, task_id: str, *, actor: str = "ann") -> None:
        task = self.task(task_id)
        require_revivable(task.id, task.state)
        if task.new.dedup is not None:
            if task.new.dedup.key in self.dedup:
                raise IllegalTransition("another task keeps its dedup key")
            self.dedup[task.new.dedup.key] = task.id
        self._note(actor, "retry", f"task:{task_id}", f"was {task.state}")
        task.charged = task.losses = 0
        task.seq, task.run_at, task.deadline = self._next_seq(), self.now, None
        task.started_at = task.ended_at = task.node = task.result = None
        task.unmet.clear()
        self._queue(task, by(actor))

    def prioritize(self, task_id: str, priority: int, *, actor: str = "ann") -> None:
        task = self.task(task_id)
        if task.state not in NOT_STARTED:
            raise IllegalTransition("it waits for nothing")
        lane = self.lane(task.lane)
        if lane.order is Order.FIFO:
            raise InvalidOption("its tasks keep the order they came in")
        detail = f"{task.priority} to {priority}"
        if lane.order is Order.PRIORITY and task.state is State.QUEUED:
            step = 1 if lane.ageing is None else micros(lane.ageing)
            task.rank += (priority - task.priority) * step
        task.priority = priority
        self._note(actor, "prioritize", f"task:{task_id}", detail)

    def set_lane(self, name: str, change: LaneChange, *, actor: str = "ann") -> Lane:
        lane = self.lane(name)
        if change.capacity is not msgspec.UNSET:
            lane.capacity = change.capacity
            self._note(actor, "set_capacity", f"lane:{name}", str(change.capacity))
        if change.max_depth is not msgspec.UNSET:
            lane.max_depth = change.max_depth
            self._note(actor, "set_max_depth", f"lane:{name}", str(change.max_depth))
        if change.rate is not msgspec.UNSET:
            lane.rate = change.rate
            self._note(actor, "set_rate", f"lane:{name}", shown_rate(change.rate))
            if change.rate is None:
                lane.bucket = Bucket()
        if change.paused is not msgspec.UNSET:
            lane.paused, lane.paused_reason = change.paused, change.paused_reason
            lane.paused_until = change.paused_until if change.paused else None
            action = "pause" if change.paused else "resume"
            self._note(actor, action, f"lane:{name}", change.paused_reason or "")
        self._set_order(name, change, actor)
        return self.seen_lane(name)

    def _set_order(self, name: str, change: LaneChange, actor: str) -> None:
        lane = self.lane(name)
        order = lane.order if change.order is msgspec.UNSET else change.order
        ageing = lane.ageing if change.ageing is msgspec.UNSET else change.ageing
        if change.order is not msgspec.UNSET or change.ageing is not msgspec.UNSET:
            aged = "" if ageing is None else f", ageing {ageing:g} s"
            self._note(actor, "set_order", f"lane:{name}", f"{order}{aged}")
        if (order, ageing) == (lane.order, lane.ageing):
            return
        lane.order, lane.ageing = order, ageing
        mine = [t for t in self.in_state(State.QUEUED, State.RUNNING) if t.lane == name]
        plain = order is Order.FIFO or (order is Order.PRIORITY and ageing is None)
        fresh = order is Order.FAIR and lane.exact and not any(t.keys or t.deadline for t in mine)
        alike = len({task.route for task in mine}) <= 1
        idle = all(task.state is State.QUEUED for task in mine)
        lane.exact = plain or not mine or (fresh and alike and idle)
        rounds: Counter[str] = Counter()
        for task in sorted(mine, key=lambda t: t.place):
            if order is not Order.FAIR:
                task.rank = rank(self.seen_lane(name), task.priority, self.now)
            elif task.state is State.QUEUED:
                task.rank = rounds[task.new.group]
                rounds[task.new.group] += 1

    def set_rule(
        self, pattern: str, limit: int | None, rate: Rate | None = None, *, actor: str = "ann"
    ) -> None:
        self.rules.pop(pattern, None)
        if limit is not None:
            self.rules[pattern] = KeyRule(pattern, limit, rate)
        often = "" if rate is None else f", {shown_rate(rate)}"
        detail = "removed" if limit is None else f"limit {limit}{often}"
        self._note(actor, "set_key_rule", f"key:{pattern}", detail)

    def pause_yard(self, paused: bool, *, until: Instant | None = None, actor: str = "ann") -> None:
        self.paused, self.paused_until = paused, until if paused else None
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
            verdicts = decide_lost([_lost(task) for task in self.running_on(label)])
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

    def key_rules(self) -> KeyRules:
        return KeyRules(self.rules.values())

    def limit(self, key: str) -> int:
        return self.key_rules().limit(key)

    def lane_tokens(self, name: str) -> int | None:
        """How many may start now by its rate; None: any number."""
        lane = self.lane(name)
        return None if lane.rate is None else lane.rate.tokens(lane.bucket.full_at, self.now)

    def lane_opens_at(self, name: str) -> Instant | None:
        """When its rate will have a token; None: it has one."""
        lane = self.lane(name)
        if lane.rate is None or self.lane_tokens(name):
            return None
        return lane.rate.opens_at(lane.bucket.full_at, self.now)

    def key_tokens(self, key: str) -> int | None:
        rate, bucket = self.key_rules().rate(key), self.buckets.get(key, Bucket())
        return None if rate is None else rate.tokens(bucket.full_at, self.now)

    def key_opens_at(self, key: str) -> Instant | None:
        rate, bucket = self.key_rules().rate(key), self.buckets.get(key, Bucket())
        if rate is None or rate.tokens(bucket.full_at, self.now):
            return None
        return rate.opens_at(bucket.full_at, self.now)

    def is_paused(self, name: str) -> bool:
        lane = self.lane(name)
        return lane.paused and not self._is_over(lane.paused_until)

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
        held_up = self.paused and not self._is_over(self.paused_until)
        return "the yard is paused" if held_up else None

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
        sure: bool = False,
    ) -> bool:
        """Whether this node could claim this task now.

        As if `without` had not been claimed just now, and as if `also` had. `sure`: not if it may
        still be parked on a key that has a token only since some time has passed.
        """
        if not self._is_offered(task, label, also):
            return False
        running = [other for other in self.running() if other.id not in without]
        mine = [t for t in running if t.runs_on == label and t.started_at is not None]
        if len(mine) + len(also) >= self.nodes[label].about.slots:
            return False
        given_back = [self.tasks[task_id] for task_id in without]
        if not self._rates_allow(task, given_back, also, sure=sure):
            return False
        running += also
        capacity = self.lane(task.lane).capacity
        if capacity is not None and sum(t.lane == task.lane for t in running) >= capacity:
            return False
        held = Counter(key for other in running for key in other.keys)
        return all(held[key] < self.limit(key) for key in task.keys)

    def _rates_allow(
        self,
        task: ModelTask,
        without: Collection[ModelTask],
        also: Collection[ModelTask],
        *,
        sure: bool,
    ) -> bool:
        tokens = self.lane_tokens(task.lane)
        if tokens is not None:
            tokens += sum(t.lane == task.lane for t in without)
            if tokens <= sum(t.lane == task.lane for t in also):
                return False
        for key in task.keys:
            tokens = self.key_tokens(key)
            if tokens is None:
                continue
            if sure and self.promoted_at != self.now:
                return False
            tokens += sum(key in t.keys for t in without)
            if tokens <= sum(key in t.keys for t in also):
                return False
        return True

    def may_go_ahead(self, task: ModelTask, label: str) -> bool:
        """Whether this node could claim this task beyond its slots now."""
        lane = self.lane(task.lane)
        if task.keys or task.suspect or lane.capacity is not None or lane.rate is not None:
            return False
        return lane.order is Order.PRIORITY and self._is_offered(task, label)

    def could_run(self) -> Iterator[tuple[ModelTask, str]]:
        """Every waiting task that could run now, and where."""
        for task in self.in_state(State.QUEUED):
            for label in self.nodes:
                if self.may_run(task, label, sure=True):
                    yield task, label

    def offered(self, label: str) -> dict[str, list[ModelTask]]:
        """What a node might claim were there room, by lane, in the lane's order."""
        lanes: dict[str, list[ModelTask]] = {}
        taken: list[ModelTask] = []
        for task in sorted(self.in_state(State.QUEUED), key=lambda task: task.place):
            if self._is_offered(task, label, taken):
                taken.append(task)
                lanes.setdefault(task.lane, []).append(task)
        return lanes

    def first_eligible(self, label: str, room: int) -> list[str] | None:
        """What a claim must bring, in order; None if it depends on whose lane's turn it is."""
        lanes = self.offered(label)
        if len(lanes) > 1 or not all(map(self._is_foretold, lanes)):
            return None
        chosen: list[ModelTask] = []
        for task in next(iter(lanes.values()), []):
            if len(chosen) < room and self.may_run(task, label, also=chosen):
                chosen.append(task)
        return [task.id for task in chosen]

    def _is_foretold(self, name: str) -> bool:
        lane = self.lane(name)
        rated = any(map(self.key_rules().rate, {k for t in self.tasks.values() for k in t.keys}))
        looked = self.promoted_at == self.now or not rated
        return lane.exact and lane.order is not Order.FAIR and looked

    def fair_turns(self, label: str) -> list[list[str]] | None:
        """The orders in which lanes may take turns where nothing limits a task; else None."""
        lanes = self.offered(label)
        plain = all(self.may_go_ahead(task, label) for tasks in lanes.values() for task in tasks)
        known = all(self.lane(name).exact for name in lanes)
        if not plain or not known or any(map(self.late, self.in_state(State.QUEUED))):
            return None
        queues = [[task.id for task in tasks] for tasks in lanes.values()]
        return [list(interleave(order)) for order in permutations(queues)]

    def explain(self, task_id: str) -> Explanation:
        """With all that wait before it in its lane; a store may know that some cannot run."""
        task = self.task(task_id)
        holders = self.holders()
        full = [
            FullKey(
                key,
                self.limit(key),
                self._in_order(holders.get(key, set())),
                self.key_opens_at(key),
            )
            for key in task.keys
            if len(holders.get(key, set())) >= self.limit(key) or self.key_opens_at(key) is not None
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
                lane_opens_at=self.lane_opens_at(task.lane),
                unmet=[other.id for other in self.tasks.values() if other.no in task.unmet],
                head=self._other_head(task),
            )
        )

    def _other_head(self, task: ModelTask) -> str | None:
        if self.lane(task.lane).order is not Order.FIFO or task.state is not State.QUEUED:
            return None
        queued = [other for other in self.in_state(State.QUEUED) if other.lane == task.lane]
        head = min(queued, key=lambda other: other.seq)
        return None if head is task else head.id

    def before(self, task: ModelTask) -> list[ModelTask]:
        queued = self.in_state(State.QUEUED)
        return [other for other in queued if other.lane == task.lane and other.place < task.place]

    def seen_lane(self, name: str) -> Lane:
        lane = self.lane(name)
        states = Counter(task.state for task in self.tasks.values() if task.lane == name)
        return Lane(
            name=name,
            capacity=lane.capacity,
            max_depth=lane.max_depth,
            rate=lane.rate,
            order=lane.order,
            ageing=lane.ageing,
            paused=lane.paused,
            paused_reason=lane.paused_reason,
            paused_until=lane.paused_until,
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

    def _is_offered(self, task: ModelTask, label: str, also: Collection[ModelTask] = ()) -> bool:
        if task.state is not State.QUEUED or self.late(task) or self.is_paused(task.lane):
            return False
        if self.lane(task.lane).order is Order.FIFO and not self._is_head(task, also):
            return False
        return self.refusal(label) is None and self.serves(label, task)

    def _is_head(self, task: ModelTask, also: Collection[ModelTask]) -> bool:
        gone = {other.id for other in also}
        return not any(
            other.lane == task.lane and other.seq < task.seq and other.id not in gone
            for other in self.in_state(State.QUEUED)
            if not self.late(other)
        )

    def _check_order(self, label: str, now: Sequence[str], ahead: frozenset[str]) -> None:
        """Nothing was taken before a task of its lane that stood before it and could run."""
        for waiting in self.in_state(State.QUEUED):
            lane = self.lane(waiting.lane)
            if lane.order is not Order.PRIORITY or not lane.exact:
                continue
            behind = {
                task_id
                for task_id in (*now, *ahead)
                if self.tasks[task_id].lane == waiting.lane
                and self.tasks[task_id].place > waiting.place
            }
            started = behind - ahead
            assert not (started and self.may_run(waiting, label, without=started, sure=True)), (
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
        ended = [task]
        while ended:  # those that depend on it at once come before those that depend on these
            first = ended.pop(0)
            others = [other for other in self.tasks.values() if first.no in other.unmet]
            ended += [other for other in others if self._has_ended(other, first)]

    def _has_ended(self, task: ModelTask, ended: ModelTask) -> bool:
        """Whether a task ends with one that it depends on; else it waits for one less."""
        if task.state in TERMINAL:
            return False
        if _ended_badly(ended) and task.new.on_failure is OnFailure.CANCEL:
            task.state, task.reason = State.CANCELLED, Reason.DEPENDENCY
            detail = f"cancelled: {ended.id} {ended.state}"
            self._note("system", "dependency", f"task:{task.id}", detail)
            task.ended_at = self.now
            self._free_dedup(task)
            return True
        task.unmet.discard(ended.no)
        if not task.unmet and task.state is State.PENDING and task.run_at <= self.now:
            self._queue(task, Reason.DEPENDENCY)
        return False

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


def by(actor: str) -> Reason:
    return Reason.SYSTEM if actor == "system" else Reason.OPERATOR


def shown_rate(rate: Rate | None) -> str:
    if rate is None:
        return str(None)
    return f"{rate.starts} in {rate.seconds:g} s, burst {rate.burst}"


def _ended_badly(task: ModelTask) -> bool:
    return task.state in (State.FAILED, State.CANCELLED)


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
