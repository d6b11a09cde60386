"""Whatever is asked of them in whatever order, the three stores do the same: what the model says.

Random verbs go to SQLite, PostgreSQL and Redis, each beside a model of its own, with one time for
all of them. After every step these are compared with the model, store by store:

- the answer of the verb, or the kind of its error; an attempt that is stale, or told under another
  lease, changes nothing;
- every task with all its fields, the order they were made in and the order of their places;
- counts, lanes, key rules, who holds which key, nodes, endings, and what was written down;
- what explain says of waiting tasks, word for word;
- which tasks a claim brought, in which order, wherever one lane is concerned, or several with no
  limits; and that a claim that brought less than it was asked for left nothing that could run.

Left free by the port, and compared only as far as it is promised: numbers, places and leases (their
order), which lane a claim begins with (each store's model follows what its store took, after
checking that it was allowed), how much is claimed ahead, which late tasks a claim fails on its way,
who is parked on which of his full keys, and the order of the audit trail within one step.

TASKYARD_TEST_EXAMPLES=2000 runs as many examples, all different from those of the last time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.node import NewNode
from taskyard.domain.outcome import Failed, Outcome, Paused, Released, Snoozed, Stopped, Succeeded
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Keep, Retention
from taskyard.domain.state import REVIVABLE, Reason, State
from taskyard.domain.task import Clash, Dedup, NewTask, OnFailure, Progress, Until
from tests.conformance.sides import FORGED, Side
from tests.conformance.things import ModelTask
from tests.conformance.verbs import BROKEN
from tests.conformance.yards import Yards

T = TypeVar("T")

EXAMPLES = int(os.environ.get("TASKYARD_TEST_EXAMPLES", "0"))
USUAL_EXAMPLES = 5
STEPS = 50

NODES = {
    "small": NewNode(id="small", kinds=("work",), slots=1),
    "large": NewNode(id="large", kinds=("work", "mail"), slots=4, capabilities=("disk", "gpu")),
    "other": NewNode(id="other", kinds=("mail",), slots=2, capabilities=("gpu",)),
}

ENDINGS: dict[str, Outcome] = {
    "succeeded": Succeeded('"done"'),
    "retry": Failed(BROKEN, after=0.0),
    "retry later": Failed(BROKEN, after=6.0),
    "timeout": Failed(BROKEN, reason=Reason.TIMEOUT, after=3.0),
    "failed": Failed(BROKEN, retry=False),
    "fatal": Failed(BROKEN, reason=Reason.FATAL),
    "released": Released(),
    "snoozed": Snoozed(3.0),
    "stopped": Stopped(),
    "stopped itself": Stopped(Reason.BODY),
    "paused": Paused(),
}

lanes = st.sampled_from(("one", "two", "three"))
keys = st.sampled_from(("a:1", "a:2", "b"))
patterns = st.sampled_from(("a:1", "b", "a:*", "*"))
limits = st.sampled_from((None, None, 0, 1, 2, 3))
priorities = st.integers(1, 3)
picks = st.integers(0, 30)
names = st.sampled_from(("large", "large", "small", "other"))
ages = st.sampled_from((0, 0, 0, 0, 0, 0, 1, 2))  # incarnations that came after it
backs = st.sampled_from((0, 0, 0, 0, 0, 0, 1, FORGED))  # attempts that came after it
rooms = st.sampled_from((1, 2, 3, 4, 5, 0))
aheads = st.sampled_from((0, 0, 0, 1, 3))
endings = st.lists(
    st.tuples(picks, backs, st.sampled_from(("succeeded", "retry", "retry", "released", *ENDINGS))),
    min_size=1,
    max_size=4,
)
rates = st.sampled_from((None, Rate(1, 3.0), Rate(1, 3.0, 2), Rate(5, 1.0, 3)))
whiles = st.sampled_from((None, None, 3, 6))  # seconds for which something is paused
changes = st.one_of(
    st.builds(LaneChange, capacity=st.sampled_from((None, None, 0, 1, 2))),
    st.builds(LaneChange, paused=st.just(False)),
    st.builds(
        LaneChange,
        paused=st.sampled_from((False, False, True)),
        paused_reason=st.sampled_from((None, "too hot")),
        capacity=st.sampled_from((msgspec.UNSET, 3)),
    ),
    st.builds(LaneChange, max_depth=st.sampled_from((None, None, 2, 5))),
    st.builds(LaneChange, rate=rates),
    st.builds(LaneChange, order=st.sampled_from(tuple(Order)), ageing=st.none()),
    st.builds(LaneChange, order=st.just(Order.PRIORITY), ageing=st.sampled_from((2.0, 30.0))),
)
spans = st.sampled_from((0, 0, 3, 20)).map(lambda span: timedelta(seconds=span))
keeps = st.builds(Keep, completed=st.none() | spans, failed=st.none() | spans)
retentions = st.builds(
    Retention,
    completed=spans,
    failed=spans,
    cancelled=spans,
    lanes=st.dictionaries(lanes, keeps, max_size=2),
    kinds=st.dictionaries(st.sampled_from(("work", "mail", "unheard of")), keeps, max_size=1),
)


def seldom(other: st.SearchStrategy[T], usual: T) -> st.SearchStrategy[T]:
    return st.integers(0, 5).flatmap(lambda die: other if die == 5 else st.just(usual))


class Wish(msgspec.Struct, frozen=True):
    """A task to be saved, with times from now."""

    kind: str = "work"
    lane: str = "one"
    priority: int = 2
    keys: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    dedup: Dedup | None = None
    delay: float | None = None
    run_in: int | None = None
    patience: int | None = None
    max_charged: int = 3
    group: str = ""
    depends_on: tuple[int, ...] = ()  # on which of the last ones
    on_failure: OnFailure = OnFailure.CANCEL
    refuse_if_held: bool = False
    traced: bool = False
    again: int | None = None  # under the id of one that was to be saved before


wishes = st.builds(
    Wish,
    kind=st.sampled_from(("work", "work", "work", "mail", "mail", "unserved")),
    lane=lanes,
    priority=priorities,
    keys=st.one_of(st.just(()), st.lists(keys, unique=True, max_size=3).map(tuple)),
    requires=seldom(st.sampled_from((("gpu",), ("gpu", "disk"), ("crane",))), ()),
    dedup=seldom(
        st.builds(
            Dedup,
            st.sampled_from(("d", "e")),
            st.sampled_from(tuple(Until)),
            st.sampled_from(tuple(Clash)),
        ),
        None,
    ),
    delay=seldom(st.sampled_from((0.0, 3.0, 6.5)), None),
    run_in=seldom(st.sampled_from((-5, 0, 3)), None),
    patience=seldom(st.sampled_from((0, 3, 20)), None),
    max_charged=seldom(st.sampled_from((1, 2)), 3),
    group=st.sampled_from(("", "g", "h")),
    depends_on=seldom(st.lists(st.integers(0, 8), min_size=1, max_size=3).map(tuple), ()),
    on_failure=st.sampled_from(tuple(OnFailure)),
    refuse_if_held=seldom(st.just(True), False),
    traced=seldom(st.just(True), False),
    again=seldom(st.integers(0, 3), None),
)


class SideBySide(RuleBasedStateMachine):
    def __init__(self, yards: Yards, runner: asyncio.Runner) -> None:
        super().__init__()
        self._yards = yards
        self._runner = runner
        self._open = self._run(yards.open())
        self._sides = [Side(name, yard.store) for name, yard in self._open.items()]
        self._labels: dict[str, list[str]] = {name: [] for name in NODES}
        self._ids: list[str] = []
        self._failed = False
        self._run(self._read_clocks())

    def _run(self, verb: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(verb)

    async def _read_clocks(self) -> None:
        for side in self._sides:
            await side.read_clock()
        assert len({side.model.now for side in self._sides}) == 1

    def _each(self, verb: Callable[[Side], Awaitable[None]]) -> None:
        """Ask all sides at the same time; the first that differs tells so."""

        async def on(side: Side) -> None:
            with blaming(side):
                await verb(side)

        async def on_all() -> None:
            for failed in await asyncio.gather(*map(on, self._sides), return_exceptions=True):
                if failed is not None:
                    self._failed = True
                    raise failed

        self._run(on_all())

    def _pick(self, pick: int, *states: State) -> str:
        """A task in one of these states if there is one in the first store, else any task."""
        tasks: Sequence[ModelTask] = self._sides[0].model.in_state(*states)
        ids = [task.id for task in tasks] or self._ids
        return ids[pick % len(ids)] if ids else "nobody"

    def _label(self, name: str, age: int) -> str:
        labels = self._labels[name]
        return labels[-1 - min(age, len(labels) - 1)]

    @initialize(narrow=st.sampled_from((None, 1, 2)), many=st.lists(wishes, max_size=5))
    def start(self, narrow: int | None, many: list[Wish]) -> None:
        for name in NODES:
            self._register(name)
        self.set_lane("one", LaneChange(capacity=None), None)
        self.set_lane("two", LaneChange(capacity=None), None)
        self.set_lane("three", LaneChange(capacity=narrow), None)
        self._enqueue(many)

    # --- tasks come ---

    @rule(many=st.lists(wishes, min_size=1, max_size=5))
    def enqueue(self, many: list[Wish]) -> None:
        self._enqueue(many)

    @rule(wish=wishes, pick=picks, back=backs)
    def enqueue_child(self, wish: Wish, pick: int, back: int) -> None:
        self._enqueue([wish], by=(self._pick(pick, State.RUNNING), back))

    @rule(
        lane=lanes,
        wanted=st.lists(keys, unique=True, min_size=1, max_size=2),
        count=st.integers(1, 4),
        patience=st.sampled_from((None, 3, 20)),
    )
    def enqueue_rivals(
        self, lane: str, wanted: list[str], count: int, patience: int | None
    ) -> None:
        """The first wants all of the keys, the others one of them each; only the last can wait."""
        rivals = [tuple(wanted), *((wanted[at % len(wanted)],) for at in range(count))]
        wishes = [Wish(lane=lane, keys=some, patience=patience) for some in rivals]
        self._enqueue([*wishes, Wish(lane=lane, keys=rivals[-1])])

    def _enqueue(self, many: Sequence[Wish], by: tuple[str, int] | None = None) -> None:
        known = len(self._ids)
        tasks = [self._new(wish, known) for wish in many]
        self._each(lambda side: side.enqueue(tasks, by=by))

    def _new(self, wish: Wish, known: int) -> NewTask:
        now = self._sides[0].model.now
        task_id = f"t{len(self._ids) + 1}"
        if wish.again is not None and known:
            task_id = self._ids[known - 1 - wish.again % known]
        else:
            self._ids.append(task_id)
        timed = wish.run_in is not None and wish.delay is None
        there = [one for one in self._ids if one in self._sides[0].model.tasks and one != task_id]
        depends_on = {there[-1 - at % len(there)]: None for at in wish.depends_on if there}
        first = wish.dedup is None and wish.again is None  # else see test_enqueue_checks
        if first and wish.depends_on and self._ids[-2:-1] and self._ids[-2] != task_id:
            depends_on[self._ids[-2]] = None  # perhaps of the same call, perhaps nobody
        # Whether what is given up at once can be refused is tried in test_enqueue_checks.
        short = self._sides[0].model.lane(wish.lane).max_depth is not None
        on_failure = OnFailure.RUN if short or wish.refuse_if_held else wish.on_failure
        return NewTask(
            id=task_id,
            kind=wish.kind,
            payload=f'{{"of":"{task_id}"}}',
            lane=wish.lane,
            priority=wish.priority,
            keys=wish.keys,
            group=wish.group,
            dedup=wish.dedup,
            refuse_if_held=wish.refuse_if_held,
            depends_on=tuple(depends_on),
            on_failure=on_failure,
            requires=wish.requires,
            max_charged=wish.max_charged,
            timeout=1.5,
            run_at=now + (wish.run_in or 0) * SECOND if timed else None,
            delay=wish.delay,
            deadline=None if wish.patience is None else now + wish.patience * SECOND,
            trace=f"00-{len(self._ids):032x}-{known + 1:016x}-01" if wish.traced else None,
        )

    # --- tasks run ---

    @rule(name=names, age=ages, room=rooms, ahead=aheads)
    def claim(self, name: str, age: int, room: int, ahead: int) -> None:
        label = self._label(name, age)
        self._each(lambda side: side.claim(label, room, ahead=ahead))

    @rule(ended=endings)
    def finish(self, ended: list[tuple[int, int, str]]) -> None:
        outcomes = self._outcomes(ended)
        self._each(lambda side: side.finish(outcomes))

    @rule(ended=endings, name=names, age=ages, room=rooms, ahead=aheads)
    def turn(
        self, ended: list[tuple[int, int, str]], name: str, age: int, room: int, ahead: int
    ) -> None:
        outcomes, label = self._outcomes(ended), self._label(name, age)
        self._each(lambda side: side.claim(label, room, ahead=ahead, endings=outcomes))

    def _outcomes(self, ended: list[tuple[int, int, str]]) -> list[tuple[str, int, Outcome]]:
        return [(self._pick(pick, State.RUNNING), back, ENDINGS[how]) for pick, back, how in ended]

    @rule()
    def settle(self) -> None:
        self._each(lambda side: side.settle())

    @rule(
        what=st.sampled_from(("mark_started", "report", "checkpoint", "claim_again")),
        pick=picks,
        back=backs,
        name=names,
        age=ages,
    )
    def hear_from_a_worker(self, what: str, pick: int, back: int, name: str, age: int) -> None:
        task_id, label = self._pick(pick, State.RUNNING), self._label(name, age)
        match what:
            case "mark_started":
                some = [(task_id, back), (self._pick(pick + 1, State.RUNNING), 0)]
                self._each(lambda side: side.mark_started(some))
            case "report":
                self._each(lambda side: side.report(task_id, back, Progress(pick, 30, "so far")))
            case "checkpoint":
                self._each(lambda side: side.checkpoint(task_id, back, f'{{"at":{pick}}}'))
            case _:
                self._each(lambda side: side.claim_again(label, pick % 3))

    @rule(name=names, room=rooms, ahead=aheads)
    def lose_a_node_and_start_it_again(self, name: str, room: int, ahead: int) -> None:
        """What it ran is suspect now: it may run again, but not be claimed ahead."""
        lost = self._label(name, 0)
        self._each(lambda side: side.rescue([lost], ended=False))
        self._register(name)
        self.claim(name, 0, room, ahead)

    # --- time passes ---

    @rule(
        span=st.sampled_from((1, 3, 6, 31)),
        who=st.sampled_from(("all", "all", "all", "nobody", *NODES)),
    )
    def pass_time(self, span: int, who: str) -> None:
        """Some beat, so that their leases go on."""
        for yard in self._open.values():
            self._run(yard.place.advance(span))
        self._run(self._read_clocks())
        for name in NODES:
            if who in ("all", name):
                label = self._label(name, 0)
                self._each(lambda side, label=label: side.beat(label))  # type: ignore[misc]

    @rule(span=st.sampled_from((3, 20)), before=st.booleans())
    def end_all_and_let_time_pass(self, span: int, before: bool) -> None:
        """Whoever was woken by the room that came free may be late before he can take it."""
        if before:
            self.settle()
        running = self._sides[0].model.running()
        outcomes = [(task.id, 0, ENDINGS["succeeded"]) for task in running]
        self._each(lambda side: side.finish(outcomes))
        self.pass_time(span, "all")
        self._each(lambda side: side.expire())
        self.settle()

    @rule(
        what=st.sampled_from(("promote", "promote", "expire", "rescue", "rescue")),
        dead=st.lists(st.tuples(names, ages), max_size=2),
        ended=st.booleans(),
    )
    def look_after(self, what: str, dead: list[tuple[str, int]], ended: bool) -> None:
        match what:
            case "promote":
                self._each(lambda side: side.promote())
            case "expire":
                self._each(lambda side: side.expire())
            case _:
                labels = [self._label(name, age) for name, age in dead]
                self._each(lambda side: side.rescue(labels, ended=ended))

    @rule(retention=retentions, limit=st.sampled_from((1, 2, 500)))
    def prune(self, retention: Retention, limit: int) -> None:
        self._each(lambda side: side.prune(retention, limit))

    # --- operators ---

    @rule(pick=picks, state=st.sampled_from((State.QUEUED, State.PENDING, State.RUNNING)))
    def cancel(self, pick: int, state: State) -> None:
        task_id = self._pick(pick, state)
        self._each(lambda side: side.cancel(task_id))

    @rule(
        pick=picks,
        state=st.sampled_from((State.QUEUED, State.PENDING, State.RUNNING, State.PAUSED)),
        back=st.booleans(),
    )
    def pause_or_resume(self, pick: int, state: State, back: bool) -> None:
        task_id = self._pick(pick, state)
        if state is State.PAUSED or back:
            self._each(lambda side: side.resume(task_id))
        else:
            self._each(lambda side: side.pause(task_id))

    @rule(pick=picks, priority=st.one_of(st.none(), priorities))
    def retry_or_prioritize(self, pick: int, priority: int | None) -> None:
        if priority is None:
            ended = self._pick(pick, *REVIVABLE)
            self._each(lambda side: side.retry(ended))
        else:
            waiting = self._pick(pick, State.QUEUED, State.PENDING, State.PAUSED)
            self._each(lambda side: side.prioritize(waiting, priority))

    @rule(lane=lanes, change=changes, span=whiles)
    def set_lane(self, lane: str, change: LaneChange, span: int | None) -> None:
        if change.paused is True:
            change = msgspec.structs.replace(change, paused_until=self._in(span))
        self._each(lambda side: side.set_lane(lane, change))

    @rule(
        pattern=patterns,
        limit=limits,
        rate=seldom(rates, None),
        paused=seldom(st.sampled_from((False, False, False, True)), None),
        span=whiles,
    )
    def set_key_rule_or_pause(
        self,
        pattern: str,
        limit: int | None,
        rate: Rate | None,
        paused: bool | None,
        span: int | None,
    ) -> None:
        if paused is None:
            rated = None if limit is None else rate
            self._each(lambda side: side.set_key_rule(pattern, limit, rated))
        else:
            self._each(lambda side: side.pause_yard(paused, self._in(span) if paused else None))

    def _in(self, span: int | None) -> Instant | None:
        return None if span is None else self._sides[0].model.now + span * SECOND

    # --- nodes ---

    @rule(
        what=st.sampled_from(
            ("register", "register", "beat", "news", "drain", "retire", "take_duty", "take_duty")
        ),
        name=names,
        age=ages,
    )
    def tell_of_a_node(self, what: str, name: str, age: int) -> None:
        label = self._label(name, age)
        match what:
            case "register":
                self._register(name)
            case "beat":
                self._each(lambda side: side.beat(label))
            case "news":
                self._each(lambda side: side.news(label))
            case "drain":
                self._each(lambda side: side.drain(label))
            case "retire":
                self._each(lambda side: side.retire(label))
            case _:
                self._each(lambda side: side.take_duty("promote", label, 20.0))

    def _register(self, name: str) -> None:
        label = f"{name} {len(self._labels[name]) + 1}"
        self._labels[name].append(label)
        self._each(lambda side: side.register(label, NODES[name]))

    # --- what must hold ---

    @invariant()
    def all_agree(self) -> None:
        self._each(lambda side: side.check())

    def teardown(self) -> None:
        try:
            if not self._failed:
                self._each(lambda side: side.settle())
                self._each(lambda side: side.check())
                self._each(lambda side: side.check_each_task())
        finally:
            self._run(self._yards.close(self._open))


@contextmanager
def blaming(side: Side) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"the store that differs: {side.name}")
        raise


@pytest.mark.spec("engine-27", "engine-8", "engine-10", "engine-14", "engine-15", "engine-19")
@pytest.mark.spec("lifecycle-15")
def test_the_stores_and_the_model_agree_after_every_step() -> None:
    with asyncio.Runner() as runner:
        yards = Yards()
        try:
            run_state_machine_as_test(
                cast("type[SideBySide]", lambda: SideBySide(yards, runner)),
                settings=settings(
                    max_examples=EXAMPLES or USUAL_EXAMPLES,
                    stateful_step_count=STEPS,
                    derandomize=not EXAMPLES,  # new faults are sought by long runs
                    deadline=None,
                    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(yards.end())
