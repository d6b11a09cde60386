"""In a flood the next call is on its way while the last answer is read: none may be lost by it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from taskyard import State, Yard
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.outcome import Verdict
from taskyard.store.port import Answered, ClaimRequest, Turn
from tests.engine.waits import found, working

TASKS = 4_000


class Watched:
    """A store whose turns are watched, and one of which can be made to fail."""

    def __init__(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        self._turn = yard.store.turn
        self.reading = False  # an answer is there that nobody has read
        self.chained = asyncio.Event()  # a call came meanwhile
        self.loses_answer = False  # of the next call that is followed by another
        self.hangs = False
        self.hung = asyncio.Event()
        self.numbers: list[int] = []
        monkeypatch.setattr(yard.store, "turn", self.turn)

    async def turn(
        self, verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered
    ) -> Turn:
        self.numbers.append(request.number)
        if self.reading:
            self.chained.set()
            if self.hangs:
                self.hung.set()
                await asyncio.Event().wait()

        async def told(claimed: int) -> None:
            calls = len(self.numbers)
            self.reading = True
            try:
                await answered(claimed)
            finally:
                self.reading = False
            if self.loses_answer and len(self.numbers) > calls:
                self.loses_answer = False
                raise StoreUnavailable("the answer cannot be read")

        return await self._turn(verdicts, request, told)


@pytest.fixture
def watched(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(yard, monkeypatch)


@pytest.fixture
async def ran(yard: Yard) -> Counter[int]:
    """How often the body of each task has run."""
    bodies: Counter[int] = Counter()

    @yard.task()
    async def note(n: int) -> None:
        bodies[n] += 1

    await yard.enqueue(*(note.new(n) for n in range(TASKS)))
    return bodies


async def all_completed(yard: Yard) -> None:
    async def look() -> bool | None:
        return (await yard.counts())[State.COMPLETED] == TASKS or None

    await found(yard, look)


@pytest.mark.spec("engine-31")
async def test_the_next_call_begins_before_the_answer_is_read(
    yard: Yard, watched: Watched, ran: Counter[int]
) -> None:
    async with working(yard):
        await all_completed(yard)
    assert watched.chained.is_set()
    assert ran == Counter(range(TASKS))
    assert watched.numbers == sorted(set(watched.numbers))  # none was asked twice, or out of turn


@pytest.mark.spec("engine-13", "engine-19")
async def test_an_answer_that_cannot_be_read_loses_no_task(
    yard: Yard, watched: Watched, ran: Counter[int]
) -> None:
    watched.loses_answer = True
    async with working(yard, lease_seconds=2.0):  # what nobody heard of is found by comparing
        await all_completed(yard)
    assert not watched.loses_answer
    assert ran == Counter(range(TASKS))


@pytest.mark.spec("engine-13", "engine-26")
async def test_a_loop_begun_anew_ends_the_call_that_was_on_its_way(
    yard: Yard, watched: Watched, ran: Counter[int]
) -> None:
    watched.hangs = True
    async with working(yard, lease_seconds=2.0) as worker:
        await watched.hung.wait()
        watched.hangs = False
        await worker._pump.restart()
        await all_completed(yard)
    assert ran == Counter(range(TASKS))


@pytest.mark.spec("engine-13")
async def test_an_answer_that_cannot_be_read_is_asked_for_again(
    yard: Yard, watched: Watched, ran: Counter[int]
) -> None:
    watched.loses_answer = True
    async with working(yard, lease_seconds=600.0):  # a comparison would come too late
        await all_completed(yard)
    assert ran == Counter(range(TASKS))


@pytest.mark.spec("engine-13")
async def test_no_call_is_left_behind_when_an_answer_cannot_be_taken(
    yard: Yard, watched: Watched, ran: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.hangs = True
    async with working(yard, lease_seconds=2.0) as worker:
        take = worker._pump._on_claim

        def fail(*args: Any) -> None:
            if not watched.hangs:
                take(*args)
                return
            if watched.hung.is_set():
                watched.hangs = False
                raise RuntimeError("it breaks")
            take(*args)

        monkeypatch.setattr(worker._pump, "_on_claim", fail)
        await watched.hung.wait()
        await all_completed(yard)
        left = [task for task in asyncio.all_tasks() if task.get_name() == "taskyard-pump-next"]
        assert not left
    assert ran == Counter(range(TASKS))
