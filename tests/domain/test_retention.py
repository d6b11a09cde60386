from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from taskyard import FOREVER, Keep, Retention
from taskyard.domain.clock import LONGEST, SECOND, Instant, as_datetime, as_instant, micros
from taskyard.domain.errors import InvalidOption
from taskyard.domain.state import TERMINAL, State

DAY = 86_400 * SECOND


def at(text: str) -> Instant:
    return as_instant(datetime.fromisoformat(text))


def shown(instant: Instant) -> str:
    return as_datetime(instant).isoformat()


@pytest.mark.spec("lifecycle-15")
def test_what_is_kept_for_how_long_unless_said_otherwise() -> None:
    ages = {state: Retention().ages(state).of("any", "any") for state in TERMINAL}

    assert ages == {State.COMPLETED: 7 * DAY, State.FAILED: 30 * DAY, State.CANCELLED: 30 * DAY}
    assert Retention().audit_age == 90 * DAY


@pytest.mark.spec("lifecycle-15")
def test_the_most_specific_setting_counts_for_each_state_by_itself() -> None:
    retention = Retention(
        lanes={"l": Keep(completed=timedelta(days=1), failed=timedelta(days=2))},
        kinds={"k": Keep(completed=timedelta(days=3))},
    )
    completed, failed = retention.ages(State.COMPLETED), retention.ages(State.FAILED)

    assert completed.of("l", "k") == completed.of("other", "k") == 3 * DAY
    assert completed.of("l", "other") == 1 * DAY
    assert completed.of("other", "other") == 7 * DAY
    assert failed.of("l", "k") == 2 * DAY
    assert failed.of("other", "k") == 30 * DAY
    assert (completed.youngest, failed.youngest) == (1 * DAY, 2 * DAY)


@pytest.mark.spec("lifecycle-15")
def test_for_ever_is_longer_than_any_time_and_fits_the_numbers_of_every_store() -> None:
    retention = Retention(completed=FOREVER, lanes={"l": Keep(completed=timedelta(days=10**6))})

    assert retention.ages(State.COMPLETED).common == micros(LONGEST)
    assert retention.ages(State.COMPLETED).of("l", "k") == micros(LONGEST)
    later = retention.aged(DAY).ages(State.COMPLETED)
    assert later.common == micros(LONGEST)


@pytest.mark.spec("lifecycle-15")
def test_an_age_given_for_once_counts_for_everything() -> None:
    retention = Retention(kinds={"k": Keep(failed=FOREVER)}, audit=timedelta(days=5))
    once = retention.older_than(timedelta(hours=1))

    assert {once.ages(state).of("l", "k") for state in TERMINAL} == {3600 * SECOND}
    assert once.audit_age == 5 * DAY
    with pytest.raises(InvalidOption):
        retention.older_than(timedelta(seconds=-1))


@pytest.mark.spec("lifecycle-15")
def test_ages_can_be_counted_from_an_earlier_moment() -> None:
    retention = Retention(lanes={"l": Keep(completed=timedelta(days=1))})
    earlier = retention.aged(DAY)

    assert earlier.ages(State.COMPLETED).of("l", "k") == 2 * DAY
    assert earlier.ages(State.FAILED).of("l", "k") == 31 * DAY


@pytest.mark.spec("lifecycle-15")
@pytest.mark.parametrize(
    ("zone", "now", "last", "following"),
    [
        ("UTC", "2026-03-01T01:59:59Z", "2026-02-28T02:00", "2026-03-01T02:00"),
        ("UTC", "2026-03-01T02:00:00Z", "2026-03-01T02:00", "2026-03-02T02:00"),
        ("Asia/Tokyo", "2026-03-01T16:59:59Z", "2026-02-28T17:00", "2026-03-01T17:00"),
        ("America/Los_Angeles", "2026-01-01T00:00:00Z", "2025-12-31T10:00", "2026-01-01T10:00"),
        # 02:00 is shown twice, or not at all, when clocks change: it is one moment all the same.
        ("Europe/Paris", "2026-03-29T00:30:00Z", "2026-03-28T01:00", "2026-03-29T01:00"),
        ("Europe/Paris", "2026-03-29T01:00:00Z", "2026-03-29T01:00", "2026-03-30T00:00"),
        ("Europe/Paris", "2026-10-25T00:00:00Z", "2026-10-25T00:00", "2026-10-26T01:00"),
    ],
)
def test_the_time_of_day_is_that_of_the_zone(
    zone: str, now: str, last: str, following: str
) -> None:
    retention = Retention(zone=zone)

    assert shown(retention.last_time(at(now))) == f"{last}:00+00:00"
    assert shown(retention.next_time(at(now))) == f"{following}:00+00:00"


@pytest.mark.spec("lifecycle-15")
@pytest.mark.parametrize(
    ("retention", "told"),
    [
        (Retention(failed=timedelta(days=-1)), "what is failed"),
        (Retention(lanes={"l": Keep(cancelled=timedelta(-1))}), "what is cancelled of l"),
        (Retention(audit=timedelta(-1)), "audit trail"),
        (Retention(completed=7), "a timedelta, not 7"),  # type: ignore[arg-type]
        (Retention(kinds={"": Keep()}), "kind must not be empty"),
        (Retention(zone="Mars/Olympus"), "no time zone 'Mars/Olympus'"),
        (Retention(zone="../etc"), "no time zone"),
        (Retention(zone=""), "no time zone"),
        (Retention(at=time(2, tzinfo=UTC)), "`zone`"),
    ],
)
def test_what_makes_no_sense_is_refused(retention: Retention, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        retention.check()
