"""The commit landed, its answer did not: raised after the commit, inside the worker's process."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskyard import Context, State, Yard
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.points import Point, hooks
from taskyard.domain.task import Duplicate

WRITER = "taskyard-sqlite-writer"


class Loser:
    """Loses the answer of the first commit after a point was passed, each time it is passed."""

    def __init__(self, point: Point, times: int) -> None:
        self._point = point
        self._left = times
        self._armed = False
        self.lost = 0

    def __call__(self, point: Point) -> None:
        if point is self._point and self._left > 0:
            self._left -= 1
            self._armed = True
        writing = threading.current_thread().name == WRITER
        if point is Point.AFTER_COMMIT and self._armed and writing:
            self._armed = False
            self.lost += 1
            raise StoreUnavailable("the answer was lost")


@contextmanager
def losing(point: Point, times: int = 1) -> Iterator[Loser]:
    loser = Loser(point, times)
    hooks.append(loser)
    try:
        yield loser
    finally:
        hooks.remove(loser)


@contextmanager
def losing_the_next_answer() -> Iterator[None]:
    loser = Loser(Point.AFTER_COMMIT, 1)
    hooks.append(loser)
    try:
        yield
    finally:
        hooks.remove(loser)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(f"sqlite:///{tmp_path / 'yard.db'}") as made:
        yield made


@pytest.fixture
def runs() -> list[tuple[str, int]]:
    """(task, attempt) of every body that ran."""
    return []


@pytest.fixture
def kind(yard: Yard, runs: list[tuple[str, int]]) -> Callable[..., object]:
    @yard.task()
    async def note(ctx: Context) -> int:
        runs.append((ctx.id, ctx.attempt))
        return ctx.attempt

    return note


@pytest.mark.spec("engine-13")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.usefixtures("kind")
async def test_a_claim_whose_answer_was_lost_is_found_again(
    yard: Yard, runs: list[tuple[str, int]], times: int
) -> None:
    kind = yard.kind("note")
    handles = [await kind.enqueue() for _ in range(5)]

    with losing(Point.BEFORE_CLAIM, times) as loser:
        await yard.worker(slots=2).start()
        for handle in handles:
            assert await handle.result(timeout=30) == 1

    assert loser.lost == times
    assert sorted(runs) == sorted((handle.id, 1) for handle in handles)


@pytest.mark.spec("engine-16", "engine-18")
@pytest.mark.usefixtures("kind")
async def test_an_enqueue_whose_answer_was_lost_can_be_repeated(
    yard: Yard, runs: list[tuple[str, int]]
) -> None:
    task = yard.kind("note").new()
    with losing_the_next_answer(), pytest.raises(StoreUnavailable):
        await yard.enqueue(task)

    assert await yard.enqueue(task) == [Duplicate(task.id)]

    await yard.worker().start()
    assert await yard.handle(task.id).result(timeout=30) == 1
    assert runs == [(task.id, 1)]


@pytest.mark.spec("engine-19")
@pytest.mark.usefixtures("kind")
async def test_a_finish_whose_answer_was_lost_is_not_done_twice(
    yard: Yard, runs: list[tuple[str, int]]
) -> None:
    handles = [await yard.kind("note").enqueue() for _ in range(3)]

    with losing(Point.AFTER_BODY, 3) as loser:
        worker = yard.worker(slots=1)
        await worker.start()
        for handle in handles:
            assert await handle.result(timeout=30) == 1
        await worker.stop()

    assert loser.lost > 0
    assert sorted(runs) == sorted((handle.id, 1) for handle in handles)
    for handle in handles:
        task = await handle.task()
        assert (task.state, task.attempt, task.charged) == (State.COMPLETED, 1, 1)
