from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.clock import SECOND
from taskyard.domain.lane import Lane, Order
from taskyard.domain.order import next_round, rank

NOW = 1_700_000_000 * SECOND
priorities = st.integers(1, 10)


@pytest.mark.spec("engine-9")
def test_the_rank_of_each_order() -> None:
    assert rank(Lane(name="a"), 7, NOW) == 7
    assert rank(Lane(name="a", order=Order.FIFO), 7, NOW) == 0
    assert rank(Lane(name="a", ageing=60.0), 7, NOW) == NOW + 7 * 60 * SECOND


@pytest.mark.spec("engine-9")
@given(
    one=priorities, other=priorities, between=st.integers(0, 10**10), ageing=st.floats(0.001, 1e6)
)
def test_ageing_weighs_the_wait_against_the_priority(
    one: int, other: int, between: int, ageing: float
) -> None:
    lane = Lane(name="a", ageing=ageing)
    earlier, later = rank(lane, one, NOW), rank(lane, other, NOW + between)

    if other >= one:
        assert earlier <= later
    else:
        overtaken = between < (one - other) * round(ageing * SECOND)
        assert (later < earlier) == overtaken


@pytest.mark.spec("engine-9")
def test_a_group_joins_the_present_round() -> None:
    assert next_round(None, None) == 0
    assert next_round(5, None) == 5
    assert next_round(5, 7) == 8
    assert next_round(5, 3) == 5
    assert next_round(None, 3) == 4


@pytest.mark.spec("engine-9")
@given(steps=st.lists(st.sampled_from(("a", "b", "c", "d", None)), max_size=80))
def test_the_first_of_a_group_waits_for_one_of_each_other_at_most(steps: list[str | None]) -> None:
    """A step is the group of a task that comes, or None: one starts."""
    ready: list[tuple[int, int, str]] = []
    since: dict[int, list[str]] = {}  # of those whose group had nothing waiting: what started then
    for seq, group in enumerate([*steps, *[None] * len(steps)]):
        if group is not None:
            present = min((task[0] for task in ready), default=None)
            last = max((task[0] for task in ready if task[2] == group), default=None)
            ready.append((next_round(present, last), seq, group))
            if last is None:
                since[seq] = []
        elif ready:
            ready.sort()
            _, started, of = ready.pop(0)
            before = since.pop(started, [])
            assert len(set(before)) == len(before)
            for others in since.values():
                others.append(of)
        assert len({(task[0], task[2]) for task in ready}) == len(ready)
    assert not ready
