from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.statistics import (
    RUN,
    RUN_SUM,
    SMALLEST,
    STEP,
    WAIT,
    WAIT_SUM,
    Count,
    Times,
    bucket_of,
    by_kind,
    classes,
    time_of,
)

times = st.floats(SMALLEST, 1e6)


def counts_of(run: list[float], kind: str = "work") -> list[Count]:
    buckets = Counter(map(bucket_of, run))
    return [
        *(Count(kind, "default", RUN, n, bucket) for bucket, n in buckets.items()),
        Count(kind, "default", RUN_SUM, sum(round(one * 1e6) for one in run)),
    ]


@pytest.mark.spec("lifecycle-16")
@given(time=times)
def test_a_time_is_known_to_within_a_tenth(time: float) -> None:
    assert time_of(bucket_of(time)) == pytest.approx(time, rel=0.1)


@pytest.mark.spec("lifecycle-16")
@given(one=times, other=times)
def test_longer_times_are_in_later_classes(one: float, other: float) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


@pytest.mark.spec("lifecycle-16")
@given(
    many=st.lists(
        st.floats(-1.0, 1e6)
        | st.sampled_from(
            [SMALLEST * STEP**n for n in (0, 5, 99)]
            + [math.nextafter(SMALLEST * STEP**99, math.inf)]
        )
    )
)
def test_many_times_at_once_are_in_the_same_classes(many: list[float]) -> None:
    assert classes(many) == Counter(map(bucket_of, many))


@pytest.mark.spec("lifecycle-16")
def test_no_time_at_all_has_a_class() -> None:
    assert bucket_of(0.0) == bucket_of(-1.0) == bucket_of(SMALLEST) == 0
    assert time_of(0) == SMALLEST
    assert bucket_of(SMALLEST * STEP) in (1, 2)


@pytest.mark.spec("lifecycle-16")
@given(run=st.lists(times, min_size=1, max_size=300))
def test_percentiles_are_right_to_within_a_tenth(run: list[float]) -> None:
    [figures] = by_kind(counts_of(run))
    in_order = sorted(run)

    for share, told in ((0.5, figures.run.p50), (0.95, figures.run.p95), (0.99, figures.run.p99)):
        exact = in_order[math.ceil(share * len(run)) - 1]
        assert told == pytest.approx(exact, rel=0.1)
    assert figures.run.count == len(run)
    assert figures.run.mean == pytest.approx(sum(run) / len(run), rel=1e-6, abs=1e-6)
    assert figures.run.p50 <= figures.run.p95 <= figures.run.p99


@pytest.mark.spec("lifecycle-16")
def test_figures_are_those_of_each_kind_over_its_lanes() -> None:
    counts = [
        *counts_of([1.0], "mail"),
        Count("work", "one", "completed", 6),
        Count("work", "two", "completed", 3),
        Count("work", "one", "failed", 1),
        Count("work", "one", "retried", 4),
        Count("work", "one", WAIT, 2, 10),
        Count("work", "one", WAIT_SUM, 5_000_000),
        Count("mail", "one", "cancelled", 2),
    ]

    mail, work = by_kind(counts)

    assert (mail.kind, work.kind) == ("mail", "work")
    assert work.ended == {"completed": 9, "failed": 1, "retried": 4}
    assert (work.attempts, work.success) == (14, 0.9)
    assert (work.wait.count, work.wait.mean, work.run) == (2, 2.5, Times())
    assert (mail.ended, mail.success) == ({"cancelled": 2}, None)
    assert mail.run.mean == 1.0


@pytest.mark.spec("lifecycle-16")
def test_nothing_counted_is_no_kind() -> None:
    assert by_kind([]) == []
