"""Calls that share their way to the store are answered as if each had come alone, in their order.

TASKYARD_TEST_EXAMPLES=2000 runs as many examples, all different from those of the last time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.domain.clock import Instant
from taskyard.domain.errors import TaskyardError
from taskyard.domain.lane import LaneChange
from taskyard.domain.state import State
from taskyard.domain.task import Clash, Dedup, Enqueue, NewTask, OnFailure, TaskQuery
from taskyard.engine.enqueuer import Enqueuer
from taskyard.store.port import Store
from tests.conformance.places import MAKERS, Maker, place_of

EXAMPLES = int(os.environ.get("TASKYARD_TEST_EXAMPLES", "0"))
USUAL_EXAMPLES = 15
DEPTH = 3

Calls = list[list[NewTask]]
Answer = list[Enqueue] | tuple[type[TaskyardError], str]

names = st.sampled_from("abcdefgh")


@st.composite
def tasks(draw: st.DrawFn) -> NewTask:
    task_id = draw(names)
    dedup = draw(st.none() | st.sampled_from("xy"))
    needs = draw(st.sets(names, max_size=2)) if draw(st.booleans()) else set()
    return NewTask(
        kind="work",
        id=task_id,
        payload=str(draw(st.integers(0, 99))),
        lane=draw(st.sampled_from(["short", "default"])),
        dedup=None if dedup is None else Dedup(dedup, clash=draw(st.sampled_from(Clash))),
        keys=("k",) if draw(st.booleans()) else (),
        refuse_if_held=draw(st.booleans()),
        depends_on=tuple(sorted(needs - {task_id})),
        on_failure=draw(st.sampled_from(OnFailure)),
        delay=draw(st.none() | st.sampled_from([5.0, 60.0])),
        priority=draw(st.sampled_from([5, 5, 5, 99])),  # the last is out of bounds
    )


calls = st.lists(st.lists(tasks(), max_size=3), min_size=2, max_size=8)


async def answered(call: Awaitable[list[Enqueue]]) -> Answer:
    try:
        return await call
    except TaskyardError as error:
        return type(error), str(error)


Seen = tuple[str, str, State, str | None, tuple[str, ...], int, Instant]


class Place:
    """Empty for every example."""

    def __init__(self, maker: Maker, folder: Path) -> None:
        folder.mkdir()
        self._maker = maker
        self._folder = folder
        self._made = 0

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Store]:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        with place_of(self._maker, folder) as place:
            store = place.view()
            await store.open()
            try:
                await store.set_lane("short", LaneChange(max_depth=DEPTH), actor="ann")
                yield store
            finally:
                await store.close()


async def seen(store: Store) -> list[Seen]:
    """Everything, in the order it was saved."""
    found = reversed(await store.find(TaskQuery(limit=1000)))
    return [
        (
            task.id,
            task.payload,
            task.state,
            task.dedup,
            task.depends_on,
            task.waits_for,
            task.run_at - task.created_at,
        )
        for task in found
    ]


async def alike(store: Store, other: Store, asked: Calls) -> None:
    enqueuer = Enqueuer(store)
    together = await asyncio.gather(*(answered(enqueuer.enqueue(call)) for call in asked))
    alone = [await answered(other.enqueue(call)) for call in asked]
    assert together == alone
    assert await seen(store) == await seen(other)


@pytest.mark.spec("engine-15", "engine-28")
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_together_is_as_one_after_the_other(maker: Maker, tmp_path: Path) -> None:
    together, alone = Place(maker, tmp_path / "together"), Place(maker, tmp_path / "alone")

    async def example(asked: Calls) -> None:
        async with together.fresh() as store, alone.fresh() as other:
            await alike(store, other, asked)

    @settings(
        max_examples=EXAMPLES or USUAL_EXAMPLES,
        derandomize=not EXAMPLES,  # new faults are sought by long runs
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(asked=calls)
    def every(asked: Sequence[Sequence[NewTask]]) -> None:
        asyncio.run(example([list(call) for call in asked]))

    every()
