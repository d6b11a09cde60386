"""In a flood the next call is on its way before the last answer is read, or even there: none may
be lost by it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import pytest

from taskyard import State, Yard
from taskyard.domain.errors import StoreError, StoreUnavailable
from taskyard.domain.outcome import Verdict
from taskyard.engine import pump
from taskyard.store.port import Answered, Claim, ClaimRequest, Turn
from tests.engine.waits import found, working

TASKS = 4_000


class Late(Enum):
    FAILS_MEANWHILE = auto()  # while the one that came later is under way
    FAILS = auto()  # when that has been answered
    IS_DONE = auto()  # after it


class Watched:
    """A store whose turns are watched, and one of which can be made to fail."""

    def __init__(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        self._turn = yard.store.turn
        self.under_way = 0  # calls whose answers nobody has read
        self.chained = asyncio.Event()  # a call came meanwhile
        self.loses_answer = False  # of the next call that is followed by another
        self.hangs = False
        self.hung = asyncio.Event()
        self.most = 0  # calls under way at once
        self.unanswered = 0  # calls that came before there was an answer to the one before
        self._answered = 0  # the number of the last that has one
        self.comes_late: Late | None = None  # what a call does that is followed by another
        self.came_late = False
        self.numbers: list[int] = []
        monkeypatch.setattr(yard.store, "turn", self.turn)

    async def turn(
        self, verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered
    ) -> Turn:
        self.numbers.append(request.number)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.unanswered += self._answered < request.number - 1
        try:
            late, self.comes_late = self.comes_late, None
            if late is not None and not await self._next_is_there(request, late):
                self.comes_late = late
            elif late is not None:
                self.came_late = True
                if late is not Late.IS_DONE:
                    raise StoreError("it was rolled back")
            if self.under_way > 1:
                self.chained.set()
                if self.hangs:
                    self.hung.set()
                    await asyncio.Event().wait()

            async def told(claimed: int) -> None:
                self._answered = max(self._answered, request.number)
                await answered(claimed)
                if self.loses_answer and self.numbers[-1] > request.number:
                    self.loses_answer = False
                    raise StoreUnavailable("the answer cannot be read")

            return await self._turn(verdicts, request, told)
        finally:
            self.under_way -= 1

    async def _next_is_there(self, request: ClaimRequest, late: Late) -> bool:
        """Not every call is followed by another before its answer."""
        is_sent = late is Late.FAILS_MEANWHILE
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                while (  # noqa: ASYNC110 - the pump needs the loop
                    self.numbers[-1] if is_sent else self._answered
                ) <= request.number:
                    await asyncio.sleep(0)
                return True
        return False


@pytest.fixture(params=[True, False], ids=["in_order", "in_any_order"])
def watched(yard: Yard, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Watched:
    monkeypatch.setattr(yard.store, "in_order", request.param)
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
async def test_the_next_call_does_not_wait_for_the_answer_to_be_read(
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
    monkeypatch.setattr(pump, "LONGEST_END", 0.1)
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


@pytest.mark.spec("engine-31")
async def test_the_next_call_is_sent_before_there_is_an_answer(
    yard: Yard, watched: Watched, ran: Counter[int]
) -> None:
    async with working(yard):
        await all_completed(yard)
    assert bool(watched.unanswered) is yard.store.in_order
    assert watched.most == 2
    assert ran == Counter(range(TASKS))


@pytest.mark.spec("engine-13")
@pytest.mark.parametrize("watched", [True], indirect=True)
@pytest.mark.parametrize("late", Late)
async def test_a_call_that_comes_to_nothing_after_the_next_one_loses_no_task(
    yard: Yard,
    watched: Watched,
    ran: Counter[int],
    late: Late,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched.comes_late = late
    told: Counter[int] = Counter()
    async with working(yard, lease_seconds=600.0) as worker:  # a comparison would come too late
        monkeypatch.setattr(worker._pump, "_on_end", lambda ends: told.update(v.no for v in ends))
        await all_completed(yard)
    assert watched.came_late
    assert ran == Counter(range(TASKS))
    assert len(told) == told.total() == TASKS  # none was taken for stale


@pytest.mark.spec("engine-11")
async def test_an_empty_queue_says_nothing_of_claiming_ahead(yard: Yard, ran: Counter[int]) -> None:
    async with working(yard) as worker:
        await all_completed(yard)
        worker._pump._ahead_pays = True
        request = ClaimRequest(lease=worker.lease, number=0, room=0, ahead=500)
        worker._pump._took(request, Claim([]))
        assert worker._pump._ahead_pays
    assert ran == Counter(range(TASKS))
