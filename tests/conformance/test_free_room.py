"""Free room and an eligible waiting task never coexist, whatever happened before."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from taskyard.domain.clock import SECOND
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.node import NewNode
from taskyard.domain.outcome import Failed, Outcome, Paused, Released, Snoozed, Stopped, Succeeded
from taskyard.domain.rate import Rate
from taskyard.domain.state import REVIVABLE, Reason, State
from taskyard.domain.task import Claimed, Clash, Dedup, NewTask, OnFailure, Task, TaskQuery
from tests.conformance.model import Model
from tests.conformance.places import Maker, place_of
from tests.conformance.things import ModelTask
from tests.conformance.verbs import BROKEN, Worker, new, parked, verdict

T = TypeVar("T")

EXAMPLES = int(os.environ.get("TASKYARD_TEST_EXAMPLES", "0"))
LANES = ("one", "two")
KEYS = ("ka", "kb", "kc")
PATTERNS = (*KEYS, "k*")
LONG = 1e6  # leases end only when a test says so
NODES = {
    "small": NewNode(id="small", slots=2, kinds=("work",), lease_seconds=LONG),
    "large": NewNode(id="large", slots=40, kinds=("mail", "work"), lease_seconds=LONG),
}
MEMORY = Path("/dev/shm")  # nothing here is about disks

ENDINGS: dict[str, Outcome] = {
    "succeeded": Succeeded("1"),
    "retry": Failed(BROKEN, after=0.0),
    "retry later": Failed(BROKEN, after=5.0),
    "failed": Failed(BROKEN, retry=False),
    "released": Released(),
    "snoozed": Snoozed(5.0),
    "stopped": Stopped(),
    "paused": Paused(),
}

HAZARDS = ("cancel", "move back", "too late", "expire", "open wide", "newcomer", "none")

lanes = st.sampled_from(LANES)
key_sets = st.lists(st.sampled_from(KEYS), unique=True, max_size=3).map(tuple)
priorities = st.integers(1, 3)
rates = st.sampled_from((None, None, Rate(1, 4.0), Rate(1, 2.0, 2), Rate(3, 2.0, 3)))
ways = st.sampled_from(((Order.PRIORITY, None), (Order.PRIORITY, 2.0), (Order.FIFO, None)))
ways |= st.just((Order.FAIR, None))
picks = st.integers(0, 1000)
names = st.sampled_from(sorted(NODES))


def facts(task: Task | ModelTask) -> tuple[object, ...]:
    return (
        *(task.id, task.state, task.reason, task.attempt, task.charged, task.losses),
        *(task.priority, task.asked),
    )


class Yard(RuleBasedStateMachine):
    """A store and the model of it, side by side."""

    def __init__(self, maker: Maker) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self._runner = asyncio.Runner()
        self._lent = ExitStack()
        self._place = self._lent.enter_context(place_of(maker, Path(self._folder.name)))
        self._store = self._place.view()
        self._model = Model()
        self._workers: dict[str, Worker] = {}
        self._claimed: dict[str, Claimed] = {}

    def _run(self, verb: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(verb)

    def _pick(self, pick: int, *states: State) -> ModelTask:
        found = self._model.in_state(*states)
        return found[pick % len(found)]

    def _has(self, *states: State) -> bool:
        return bool(self._model.in_state(*states))

    async def _register(self, name: str) -> None:
        self._model.now = await self._store.now()
        self._workers[name] = Worker(self._store, await self._store.register(NODES[name]))
        self._model.register(name, NODES[name])

    @initialize(way=ways)
    def start(self, way: tuple[Order, float | None]) -> None:
        for name in NODES:
            self._run(self._register(name))
        for lane in LANES:
            self._set_lane(lane, LaneChange(capacity=None))
        self.change_order("two", way)
        self.let_time_pass(2)

    # --- what may happen ---

    @rule(
        lane=lanes,
        keys=key_sets,
        priority=priorities,
        kind=st.sampled_from(("work", "work", "mail")),
        delay=st.sampled_from((None, None, None, 5.0)),
        patience=st.sampled_from((None, None, None, 3)),
    )
    def enqueue(
        self,
        *,
        lane: str,
        keys: tuple[str, ...],
        priority: int,
        kind: str = "work",
        delay: float | None = None,
        patience: int | None = None,
    ) -> None:
        self._model.now = self._run(self._store.now())
        deadline = None if patience is None else self._model.now + patience * SECOND
        task = new(kind, lane=lane, keys=keys, priority=priority, delay=delay, deadline=deadline)
        self._enqueue(task)

    def _enqueue(self, *tasks: NewTask) -> None:
        self._model.now = self._run(self._store.now())
        answers = self._run(self._store.enqueue(tasks))
        assert list(map(type, answers)) == list(map(type, self._model.enqueue(tasks)))

    @rule(
        lane=lanes,
        key=key_sets,
        groups=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
        clash=st.sampled_from((None, None, *Clash)),
        refuse=st.booleans(),
    )
    def enqueue_groups(
        self, lane: str, key: tuple[str, ...], groups: list[str], clash: Clash | None, refuse: bool
    ) -> None:
        dedup = None if clash is None else Dedup("one of a kind", clash=clash)
        tasks = [new(lane=lane, keys=key[:1], group=group) for group in groups]
        self._enqueue(*tasks, new(lane=lane, keys=key, dedup=dedup, refuse_if_held=refuse, delay=3))

    @precondition(lambda self: bool(self._model.tasks))
    @rule(
        some=st.lists(picks, min_size=1, max_size=3),
        lane=lanes,
        keys=key_sets,
        on_failure=st.sampled_from(tuple(OnFailure)),
    )
    def enqueue_a_chain(
        self, some: list[int], lane: str, keys: tuple[str, ...], on_failure: OnFailure
    ) -> None:
        known = list(self._model.tasks)
        names = tuple({known[pick % len(known)]: None for pick in some})
        if self._model.lane(lane).max_depth is not None:  # see test_enqueue_checks
            on_failure = OnFailure.RUN
        first = new(lane=lane, keys=keys, depends_on=names, on_failure=on_failure)
        second = new(lane=lane, depends_on=(first.id,), on_failure=OnFailure.RUN)
        self._enqueue(first, second)

    @rule(
        keys=key_sets.filter(bool),
        lane=lanes,
        count=st.integers(2, 4),
        patience=st.sampled_from((None, 3)),
    )
    def enqueue_several_for_the_same_keys(
        self, keys: tuple[str, ...], lane: str, count: int, patience: int | None
    ) -> None:
        """The first carries all of them, and may be in a hurry."""
        for turn in range(count):
            part = keys if turn == 0 else keys[turn % len(keys) :]
            hurry = patience if turn == 0 else None
            self.enqueue(lane=lane, keys=part, priority=1 + turn % 3, patience=hurry)

    @rule(lane=lanes)
    def hold_every_key_alone(self, lane: str) -> None:
        for key in KEYS:
            self.enqueue(lane=lane, keys=(key,), priority=1)
        self._claim("large", 10)

    @rule(name=names, room=st.integers(1, 4))
    def claim(self, name: str, room: int) -> None:
        self._claim(name, room)

    def _claim(self, name: str, room: int) -> bool:
        """One claim; says whether asking again could bring more."""
        self._model.now = self._run(self._store.now())
        claim = self._run(self._workers[name].ask(room))
        assert claim.refused is None
        self._notice_expired()
        self._model.claim(name, [(task.id, task.attempt) for task in claim.tasks])
        self._claimed.update((task.id, task) for task in claim.tasks)
        return claim.more or bool(claim.tasks)

    @precondition(lambda self: self._has(State.RUNNING))
    @rule(pick=picks, ending=st.sampled_from(sorted(ENDINGS)))
    def finish(self, pick: int, ending: str) -> None:
        self._finish([self._pick(pick, State.RUNNING)], ending)

    def _finish(self, tasks: list[ModelTask], ending: str) -> None:
        verdicts = [verdict(self._claimed[task.id], ENDINGS[ending]) for task in tasks]
        self._model.now = self._run(self._store.now())
        self._run(self._store.finish(verdicts))
        for final in verdicts:
            self._model.finish(final)

    @precondition(lambda self: self._has(State.QUEUED, State.PENDING))
    @rule(pick=picks)
    def cancel_a_waiting_one(self, pick: int) -> None:
        task = self._pick(pick, State.QUEUED, State.PENDING)
        self._run(self._store.cancel(task.id, actor="ann"))
        self._model.cancel(task.id)

    @precondition(lambda self: self._has(State.RUNNING))
    @rule(pick=picks)
    def ask_a_running_one_to_stop(self, pick: int) -> None:
        task = self._pick(pick, State.RUNNING)
        self._run(self._store.cancel(task.id, actor="ann"))
        self._model.cancel(task.id)

    @precondition(lambda self: self._has(State.QUEUED, State.PENDING, State.RUNNING))
    @rule(pick=picks, state=st.sampled_from((State.QUEUED, State.QUEUED, State.RUNNING)))
    def pause_a_task(self, pick: int, state: State) -> None:
        some = (state,) if self._has(state) else (State.QUEUED, State.PENDING, State.RUNNING)
        task = self._pick(pick, *some)
        self._run(self._store.pause(task.id, actor="ann"))
        self._model.pause(task.id)

    @precondition(lambda self: self._has(State.PAUSED))
    @rule(pick=picks)
    def resume_a_task(self, pick: int) -> None:
        task = self._pick(pick, State.PAUSED)
        self._run(self._store.resume(task.id, actor="ann"))
        self._model.resume(task.id)

    @precondition(lambda self: self._has(State.RUNNING))
    @rule(pick=picks)
    def keep_a_checkpoint(self, pick: int) -> None:
        task = self._pick(pick, State.RUNNING)
        claimed = self._claimed[task.id]
        assert self._run(self._store.checkpoint(claimed.hold, f"[{pick}]"))
        self._model.checkpoint(task.id, claimed.attempt, f"[{pick}]")

    @precondition(lambda self: self._has(*REVIVABLE))
    @rule(pick=picks)
    def retry(self, pick: int) -> None:
        task = self._pick(pick, *REVIVABLE)
        if task.new.dedup is not None and task.new.dedup.key in self._model.dedup:
            return
        self._run(self._store.retry(task.id, actor="ann"))
        self._model.retry(task.id)

    @precondition(lambda self: self._has(State.QUEUED, State.PENDING))
    @rule(pick=picks, priority=priorities)
    def prioritize(self, pick: int, priority: int) -> None:
        self._prioritize(self._pick(pick, State.QUEUED, State.PENDING), priority)

    def _prioritize(self, task: ModelTask, priority: int) -> None:
        if self._model.lane(task.lane).order is not Order.FIFO:
            self._run(self._store.prioritize(task.id, priority, actor="ann"))
            self._model.prioritize(task.id, priority)

    def _set_lane(self, lane: str, change: LaneChange) -> None:
        self._model.now = self._run(self._store.now())
        lane_now = self._run(self._store.set_lane(lane, change, actor="ann"))
        assert lane_now == self._model.set_lane(lane, change)

    @rule(lane=lanes, capacity=st.sampled_from((None, None, None, 0, 1, 2)))
    def change_capacity(self, lane: str, capacity: int | None) -> None:
        self._set_lane(lane, LaneChange(capacity=capacity))

    @rule(lane=lanes, depth=st.sampled_from((None, None, 0, 3, 9)))
    def change_depth(self, lane: str, depth: int | None) -> None:
        self._set_lane(lane, LaneChange(max_depth=depth))

    @rule(lane=lanes, way=ways)
    def change_order(self, lane: str, way: tuple[Order, float | None]) -> None:
        self._set_lane(lane, LaneChange(order=way[0], ageing=way[1]))

    @rule(lane=lanes, rate=rates)
    def change_rate(self, lane: str, rate: Rate | None) -> None:
        self._set_lane(lane, LaneChange(rate=rate))

    @rule(
        lane=lanes,
        paused=st.sampled_from((False, False, True)),
        span=st.sampled_from((None, 2, 5)),
    )
    def pause_or_resume(self, lane: str, paused: bool, span: int | None) -> None:
        now = self._run(self._store.now())
        until = None if span is None or not paused else now + span * SECOND
        self._set_lane(lane, LaneChange(paused=paused, paused_until=until))

    @rule(
        pattern=st.sampled_from(PATTERNS),
        limit=st.sampled_from((None, None, 0, 1, 2, 3)),
        rate=rates,
    )
    def change_limit(self, pattern: str, limit: int | None, rate: Rate | None = None) -> None:
        rate = None if limit is None else rate
        self._run(self._store.set_key_rule(pattern, limit, rate=rate, actor="ann"))
        self._model.set_rule(pattern, limit, rate)

    @rule(name=names)
    def kill_and_rescue(self, name: str) -> None:
        self._run(self._store.rescue([self._workers[name].lease]))
        self._model.rescue([name])
        self._run(self._register(name))

    @rule(seconds=st.sampled_from((2, 6)))
    def let_time_pass(self, seconds: int) -> None:
        self._run(self._place.advance(seconds))
        self._promote()

    def _promote(self) -> None:
        self._model.now = self._run(self._store.now())
        promoted = self._run(self._store.promote())
        assert promoted.count >= self._model.promote()
        openings = self._model.openings(self._run(parked(self._store)))
        if openings:
            assert promoted.next_due is not None
            assert promoted.next_due <= min(openings)

    @rule()
    def expire(self) -> None:
        self._model.now = self._run(self._store.now())
        self._run(self._store.expire())
        self._notice_expired()
        assert not any(map(self._model.late, self._model.tasks.values()))

    @precondition(lambda self: self._wanted_keys())
    @rule(pick=picks, how=st.sampled_from(HAZARDS))
    def free_a_key_and_take_the_next_waiter_away(self, pick: int, how: str) -> None:
        wanted = self._wanted_keys()
        self._take_away(wanted[pick % len(wanted)], how, settle=pick % 2 == 0)

    @rule(
        key=st.sampled_from(KEYS),
        other=st.sampled_from(KEYS),
        lane=lanes,
        how=st.sampled_from(HAZARDS),
    )
    def stage_the_hazard(self, key: str, other: str, lane: str, how: str) -> None:
        """Two keys are held; the first who waits for one of them may lack the other too."""
        for name in sorted({key, other}):
            self.enqueue(lane=lane, keys=(name,), priority=1)
        self._claim("large", 10)
        both = (key,) if other == key else (key, other)
        self.enqueue(lane=lane, keys=both, priority=1, patience=3)
        for _ in range(2):
            self.enqueue(lane=lane, keys=(key,), priority=2)
        if key in self._wanted_keys():
            self._take_away(key, how, settle=True)

    def _take_away(self, key: str, how: str, *, settle: bool) -> None:
        """The hazard: room found a waiter, and the waiter leaves without taking it."""
        self._finish([task for task in self._model.running() if key in task.keys], "succeeded")
        waiters = sorted(self._waiters(key), key=lambda task: task.place)
        match how:
            case _ if not waiters:
                pass  # it was refused, or waits for others
            case "cancel":
                self._run(self._store.cancel(waiters[0].id, actor="ann"))
                self._model.cancel(waiters[0].id)
            case "move back":
                self._prioritize(waiters[0], 3)
            case "too late":
                self.let_time_pass(6)
            case "expire":
                self.let_time_pass(6)
                self.expire()
            case "open wide":
                self.change_limit(key, 3)
            case "newcomer":
                self.enqueue(lane=waiters[0].lane, keys=(key,), priority=3)
            case _:
                pass
        if settle:
            self.settle()

    def _waiters(self, key: str) -> list[ModelTask]:
        return [task for task in self._model.in_state(State.QUEUED) if key in task.keys]

    def _wanted_keys(self) -> list[str]:
        """The keys that are held and waited for by more than one."""
        return [key for key in sorted(self._model.holders()) if len(self._waiters(key)) > 1]

    # --- what must hold ---

    @rule()
    def settle(self) -> None:
        """Let every node take all it can: then nothing that could run is left waiting."""
        self._promote()
        busy = True
        while busy:
            busy = sum(self._claim(name, 50) for name in self._workers) > 0
        assert list(self._model.could_run()) == []
        for task in self._model.in_state(State.QUEUED)[:5]:
            explanation = self._run(self._store.explain(task.id))
            assert explanation == self._model.explain(task.id)

    @invariant()
    def store_and_model_agree(self) -> None:
        kept = {task.id: task for task in self._run(self._store.find(TaskQuery(limit=1000)))}
        assert kept.keys() == self._model.tasks.keys()
        for task in self._model.tasks.values():
            assert facts(kept[task.id]) == facts(task)
        held = {key.name: set(key.holders) for key in self._run(self._store.keys())}
        assert {name: who for name, who in held.items() if who} == self._model.holders()

    def _notice_expired(self) -> None:
        """A claim may fail late tasks on its way, or leave that to expire."""
        for task in self._model.in_state(State.QUEUED, State.PENDING):
            if self._model.late(task):
                kept = self._run(self._store.get(task.id))
                assert kept is not None
                if kept.reason is Reason.EXPIRED:
                    self._model.expire(task.id)

    def teardown(self) -> None:
        if self._workers:
            self.settle()
        self._run(self._store.close())
        self._lent.close()
        self._runner.close()
        self._folder.cleanup()


@pytest.mark.spec("engine-10", "engine-8", "engine-9", "engine-14", "engine-19")
def test_free_room_and_an_eligible_waiting_task_never_coexist(maker: Maker) -> None:
    def yard() -> Yard:
        return Yard(maker)

    run_state_machine_as_test(
        cast("type[Yard]", yard),
        settings=settings(
            max_examples=EXAMPLES or 12,  # the same rules are tried side by side too
            stateful_step_count=40,
            derandomize=not EXAMPLES,  # new faults are sought by long runs
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
