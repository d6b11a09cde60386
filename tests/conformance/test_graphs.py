"""Random graphs of tasks that depend on each other: each starts after those it depends on have
ended, and what is waited for by many lets each of them go exactly once.

TASKYARD_TEST_EXAMPLES=1000 tries as many graphs on each store.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.domain.node import NewNode
from taskyard.domain.outcome import Finished
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import Claimed, Duplicate, Enqueued, NewTask, OnFailure, new_task_id
from taskyard.store.port import Store
from tests.conformance.places import Maker
from tests.conformance.verbs import Worker, failed, seen, stopped, succeeded

EXAMPLES = int(os.environ.get("TASKYARD_TEST_EXAMPLES", "0"))
USUAL_EXAMPLES = 8
MOST = 12


class Knot(msgspec.Struct, frozen=True):
    """A task of a graph, by its place in it."""

    depends_on: tuple[int, ...]
    on_failure: OnFailure
    ends: str  # how it ends if it starts; "cancel": while it waits, if it does
    call: bool  # begins another call of enqueue


@st.composite
def graphs(draw: st.DrawFn) -> list[Knot]:
    """A task depends on earlier ones."""
    endings = st.sampled_from(("well", "well", "well", "at the second try", "badly", "stopped"))
    knots: list[Knot] = []
    for at in range(draw(st.integers(1, MOST))):
        others = st.lists(st.integers(0, at - 1), unique=True, max_size=4) if at else st.just([])
        knots.append(
            Knot(
                depends_on=tuple(draw(others)),
                on_failure=draw(st.sampled_from(tuple(OnFailure))),
                ends=draw(endings | st.just("cancel")),
                call=draw(st.booleans()),
            )
        )
    return knots


ENDS = {
    "well": State.COMPLETED,
    "at the second try": State.COMPLETED,
    "badly": State.FAILED,
    "stopped": State.CANCELLED,
}


class Run:
    """One graph in a yard."""

    def __init__(self, store: Store, elsewhere: Store, graph: Sequence[Knot]) -> None:
        self._stores = (store, elsewhere)
        self._store = store
        self._graph = graph
        self._name = new_task_id()
        self._states: dict[int, State] = {}  # of those that have ended
        self._by_hand: set[int] = set()
        self._starts: Counter[int] = Counter()

    def _id(self, at: int) -> str:
        return f"{self._name}:{at}"

    async def run(self) -> None:
        node = NewNode(id=self._name, kinds=(self._name,), slots=3, lease_seconds=1e6)
        workers = [Worker(store, await store.register(node)) for store in self._stores[:1]]
        saved = 0
        while saved < len(self._graph):
            saved = await self._enqueue(saved)
            await self._cancel(saved)
            await self._turn(workers[0])
        while await self._turn(workers[0]):
            pass
        await self._store.retire(workers[0].lease)
        await self._check()

    async def _enqueue(self, saved: int) -> int:
        """The tasks of one call, twice, as after a lost answer."""
        until = saved + 1
        while until < len(self._graph) and not self._graph[until].call:
            until += 1
        tasks = [self._new(at) for at in range(saved, until)]
        assert await self._store.enqueue(tasks) == [Enqueued(task.id) for task in tasks]
        assert await self._stores[1].enqueue(tasks) == [Duplicate(task.id) for task in tasks]
        for at in range(saved, until):
            await self._notice(at)
        return until

    def _new(self, at: int) -> NewTask:
        knot = self._graph[at]
        return NewTask(
            id=self._id(at),
            kind=self._name,
            payload="{}",
            depends_on=tuple(map(self._id, knot.depends_on)),
            on_failure=knot.on_failure,
        )

    async def _cancel(self, saved: int) -> None:
        for at in range(saved):
            if self._graph[at].ends == "cancel" and at not in self._states:
                await self._store.cancel(self._id(at), actor="ann")
                self._by_hand.add(at)
                await self._notice_all(saved)

    async def _turn(self, worker: Worker) -> bool:
        """Start what may start, and end all of it at the same time."""
        claimed = await worker.claim(3)
        for task in claimed:
            at = int(task.id.rpartition(":")[2])
            self._starts[at] += 1
            assert self._may_start(at), f"{at} has started too early"
        await asyncio.gather(*(self._end(at, task) for at, task in enumerate(claimed)))
        await self._notice_all(len(self._graph))
        return bool(claimed)

    def _may_start(self, at: int) -> bool:
        knot = self._graph[at]
        ended = [self._states.get(other) for other in knot.depends_on]
        if knot.on_failure is OnFailure.RUN:
            return None not in ended
        return all(state is State.COMPLETED for state in ended)

    async def _end(self, number: int, task: Claimed) -> None:
        store = self._stores[number % 2]
        how = self._graph[int(task.id.rpartition(":")[2])].ends
        match how:
            case "at the second try" if task.attempt == 1:
                assert await store.finish([failed(task)]) == [Finished(task.no, State.PENDING)]
            case "badly":
                await store.finish([failed(task, retry=False)])
            case "stopped":
                await store.finish([stopped(task)])
            case _:
                await store.finish([succeeded(task)])

    async def _notice_all(self, saved: int) -> None:
        for at in range(saved):
            await self._notice(at)

    async def _notice(self, at: int) -> None:
        task = await self._store.get(self._id(at))
        if task is not None and task.state in TERMINAL:
            assert self._states.setdefault(at, task.state) is task.state

    async def _check(self) -> None:
        """Each has ended as it had to, and has started as often as it had to."""
        for at, knot in enumerate(self._graph):
            task = await seen(self._store, self._id(at))
            given_up = knot.on_failure is OnFailure.CANCEL and any(
                self._states[other] is not State.COMPLETED for other in knot.depends_on
            )
            if at in self._by_hand:
                assert (task.state, task.attempt) == (State.CANCELLED, 0)
                assert task.reason is Reason.OPERATOR
            elif given_up:
                assert (task.state, task.reason) == (State.CANCELLED, Reason.DEPENDENCY)
                assert (task.attempt, self._starts[at]) == (0, 0)
            else:
                tries = 2 if knot.ends == "at the second try" else 1
                assert task.state is ENDS[knot.ends]
                assert (task.attempt, self._starts[at], task.waits_for) == (tries, tries, 0)


@pytest.mark.spec("engine-17")
def test_each_task_of_a_graph_starts_once_after_those_it_depends_on(
    maker: Maker, tmp_path: Path
) -> None:
    place = maker(tmp_path)
    store, elsewhere = place.view(), place.view()

    with asyncio.Runner() as runner:
        runner.run(store.open())
        runner.run(elsewhere.open())

        @settings(
            max_examples=EXAMPLES or USUAL_EXAMPLES,
            derandomize=not EXAMPLES,  # new faults are sought by long runs
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(graph=graphs())
        def every_graph(graph: list[Knot]) -> None:
            runner.run(Run(store, elsewhere, graph).run())

        try:
            every_graph()
        finally:
            runner.run(elsewhere.close())
            runner.run(store.close())
