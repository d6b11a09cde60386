from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.clock import LONGEST, SECOND
from taskyard.domain.errors import InvalidOption
from taskyard.domain.rate import MAX_STARTS, Rate

rates = st.builds(
    Rate,
    starts=st.integers(1, 1000),
    seconds=st.floats(0.01, 10_000.0),
    burst=st.integers(1, 50),
)
waits = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 5)), max_size=40)


@pytest.mark.spec("engine-3")
def test_a_bucket_nobody_has_used_holds_the_burst() -> None:
    rate = Rate(10, 1.0, 4)

    assert rate.interval == SECOND // 10
    assert rate.tokens(0, now=5 * SECOND) == 4


@pytest.mark.spec("engine-3")
def test_a_token_comes_in_at_each_interval() -> None:
    rate, now = Rate(10, 1.0, 2), 1000 * SECOND
    full_at = rate.take(0, now, 2)

    assert rate.tokens(full_at, now) == 0
    assert rate.opens_at(full_at, now) == now + rate.interval
    assert rate.tokens(full_at, now + rate.interval - 1) == 0
    assert rate.tokens(full_at, now + rate.interval) == 1
    assert rate.tokens(full_at, now + 2 * rate.interval) == 2
    assert rate.tokens(full_at, now + 99 * rate.interval) == 2


@pytest.mark.spec("engine-3")
@given(rate=rates, waits=waits)
def test_in_any_span_no_more_start_than_the_burst_and_what_has_come_in(
    rate: Rate, waits: list[tuple[int, int]]
) -> None:
    now, full_at = 10**15, 0
    starts: list[int] = []
    for wait, wanted in waits:
        now += wait
        count = min(wanted, rate.tokens(full_at, now))
        if count:
            full_at = rate.take(full_at, now, count)
        starts += [now] * count
    for begin, since in enumerate(starts):
        for end in range(begin, len(starts)):
            came_in = (starts[end] - since) // rate.interval
            assert end - begin + 1 <= rate.burst + came_in


@pytest.mark.spec("engine-3")
@given(rate=rates, used=st.integers(1, 50), wait=st.integers(0, 10**10))
def test_it_opens_at_the_very_moment_there_is_one_token_more(
    rate: Rate, used: int, wait: int
) -> None:
    begin = 10**15
    full_at = rate.take(0, begin, min(used, rate.burst))
    now = begin + wait
    tokens = rate.tokens(full_at, now)
    if tokens == rate.burst:
        return

    opens_at = rate.opens_at(full_at, now)

    assert opens_at > now
    assert rate.tokens(full_at, opens_at) == tokens + 1
    assert rate.tokens(full_at, opens_at - 1) == tokens


@pytest.mark.spec("engine-3")
@given(rate=rates, count=st.integers(1, 50))
def test_tokens_taken_at_once_are_those_taken_one_by_one(rate: Rate, count: int) -> None:
    now, one_by_one = 10**15, 0
    for _ in range(count):
        one_by_one = rate.take(one_by_one, now)

    assert rate.take(0, now, count) == one_by_one


@pytest.mark.spec("engine-3")
def test_a_smaller_rate_on_a_used_bucket_has_no_fewer_than_no_tokens() -> None:
    now = 10**15
    used = Rate(1, 60.0, 10).take(0, now, 10)

    assert Rate(1, 1.0).tokens(used, now) == 0


@pytest.mark.spec("engine-3")
@pytest.mark.parametrize(
    "rate",
    [Rate(1), Rate(MAX_STARTS), Rate(1, LONGEST), Rate(1, 1e-6), Rate(5, 1.0, MAX_STARTS)],
    ids=str,
)
def test_a_sound_rate_is_let_through(rate: Rate) -> None:
    rate.check()


@pytest.mark.spec("engine-3")
@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (Rate(0), "needs 1 to 1,000,000 starts, not 0"),
        (Rate(MAX_STARTS + 1), "starts"),
        (Rate(1, 0.0), "more than 0 seconds"),
        (Rate(1, float("nan")), "more than 0 seconds"),
        (Rate(1, LONGEST * 2), "more than 0 seconds"),
        (Rate(1, 1.0, 0), "burst must be from 1"),
        (Rate(MAX_STARTS, 0.1), "is no limit: leave it out"),
    ],
    ids=str,
)
def test_a_wrong_rate_is_refused(rate: Rate, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        rate.check()
