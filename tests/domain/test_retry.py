from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.clock import LONGEST
from taskyard.domain.errors import InvalidOption
from taskyard.domain.retry import Retry, RetryPolicy

DOWNLOAD = Retry.exponential(3)


@pytest.mark.spec("lifecycle-8")
def test_exponential_delays_double_up_to_the_cap() -> None:
    assert [DOWNLOAD.delay(n) for n in range(1, 7)] == [60, 120, 240, 300, 300, 300]


@pytest.mark.spec("lifecycle-8")
@pytest.mark.parametrize(("retries", "delay"), [(2, 30), (2, 10), (1, 5)])
def test_fixed_delays_stay_the_same(retries: int, delay: float) -> None:
    policy = Retry.fixed(retries, delay=delay)

    assert [policy.delay(n) for n in range(1, 5)] == [delay] * 4
    assert policy.retries == retries


@pytest.mark.spec("lifecycle-8")
def test_no_spacing_means_at_once() -> None:
    assert RetryPolicy(retries=3).delay(1) == 0


@pytest.mark.spec("lifecycle-8")
@given(failures=st.integers(1, 10_000), base=st.floats(0, 1e6), cap=st.floats(0, 1e6))
def test_jitter_stays_between_0_and_the_plain_delay(failures: int, base: float, cap: float) -> None:
    plain = Retry.exponential(3, base=base, cap=cap).delay(failures)
    jittered = Retry.exponential(3, base=base, cap=cap, jitter=True).delay(failures)

    assert 0 <= jittered <= plain <= cap
    assert plain == min(base * 2.0 ** min(failures - 1, 64), cap)


@pytest.mark.spec("lifecycle-8")
def test_jitter_spreads() -> None:
    policy = Retry.exponential(3, jitter=True)

    assert len({policy.delay(1) for _ in range(20)}) > 1


@pytest.mark.spec("lifecycle-8")
@pytest.mark.parametrize("policy", [Retry.never(), Retry.fixed(1, delay=5), DOWNLOAD])
def test_a_delay_that_was_asked_for_is_honoured(policy: RetryPolicy) -> None:
    assert policy.delay(1, asked=7.5) == 7.5
    assert policy.delay(1, asked=4000) == 4000  # also beyond the cap
    assert policy.delay(1, asked=0) == 0
    assert policy.delay(1, asked=-3) == 0


@pytest.mark.spec("lifecycle-8")
def test_a_great_many_failures_do_not_overflow() -> None:
    assert Retry.exponential(3, base=1e300, cap=300).delay(100_000) == 300
    assert Retry.exponential(3, cap=float("inf")).delay(100_000) == LONGEST
    assert Retry.never().delay(1, asked=float("inf")) == LONGEST


@pytest.mark.spec("engine-2", "lifecycle-8")
@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (1, 2), (3, 4)])
def test_retries_3_means_four_charged_runs(retries: int, runs: int) -> None:
    assert Retry.fixed(retries, delay=1).max_charged == runs
    assert Retry.never().max_charged == 1


@pytest.mark.spec("lifecycle-8")
@pytest.mark.parametrize("wrong", [{"retries": -1}, {"base": -1.0}, {"cap": -1.0}])
def test_a_wrong_policy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        RetryPolicy(**wrong)


@pytest.mark.spec("engine-34")
def test_a_handler_may_ask_for_a_delay() -> None:
    assert Retry().after is None
    assert Retry("busy", after=9).after == 9
    assert str(Retry("busy")) == "busy"
