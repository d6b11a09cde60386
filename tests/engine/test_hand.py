"""What a worker holds, and how much of it it claims ahead."""

from __future__ import annotations

from typing import cast

import pytest

from taskyard import Context
from taskyard.domain.node import Hold
from taskyard.domain.task import Claimed
from taskyard.engine.hand import MAX_AHEAD, Hand
from taskyard.engine.job import Job
from taskyard.engine.registry import Kind


def test_a_hand_claims_ahead_only_while_slots_turn_over_quickly() -> None:
    hand = Hand(10)
    assert (hand.reserve, hand.free_reserve_beside(0)) == (0, 0)
    assert not hand.knows(Hold(1, 1))

    _turn_over(hand, 0.001, times=200)
    assert 400 <= hand.reserve <= 500  # what ten slots do in 0.05 s
    _turn_over(hand, 0.008, times=200)
    assert 50 <= hand.reserve <= 70
    _turn_over(hand, 1.0, times=1)
    assert hand.reserve == 0


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize("slots", [1, 100])
def test_what_is_claimed_ahead_of_quick_bodies_is_two_claims_deep(slots: int) -> None:
    hand = Hand(slots)
    _turn_over(hand, 0.00001, times=200)
    assert (hand.reserve, hand.free_reserve_beside(0)) == (2 * MAX_AHEAD, MAX_AHEAD)
    hand.ahead.extend([_job()] * MAX_AHEAD)
    assert hand.free_reserve_beside(0) == MAX_AHEAD  # these come while those run
    hand.ahead.append(_job())
    assert hand.free_reserve_beside(0) == 0  # it is enough to go on with


def _turn_over(hand: Hand, seconds: float, *, times: int) -> None:
    for _ in range(times):
        job = _job()
        hand.took(job)
        job.begin()
        job.ran = seconds
        hand.ended(job)


def _job() -> Job:
    async def work() -> None: ...

    kind = Kind("work", work)
    claimed = Claimed(1, "1", "work", "default", 1, 0, 4, 60.0, "{}")
    return Job(claimed, kind, lambda _: cast(Context, None))
