"""How Taskyard counts time."""

from __future__ import annotations

from datetime import UTC, datetime

Instant = int
"""Microseconds since the Unix epoch, by the store's clock."""

SECOND: Instant = 1_000_000

LONGEST = 100 * 365 * 86_400.0
"""Seconds. No wait is longer, so that every instant fits every store's numbers."""

FIRST: Instant = -62_135_596_800 * SECOND
LAST: Instant = 253_402_300_799 * SECOND
"""The first and the last second a datetime can show in UTC."""


def micros(seconds: float) -> Instant:
    return round(seconds * SECOND)


def bounded(seconds: float) -> float:
    """From 0 to LONGEST; what is no number is 0."""
    return min(max(0.0, seconds), LONGEST)


def seconds(instant: Instant) -> float:
    return instant / SECOND


def as_instant(moment: datetime) -> Instant:
    """A naive datetime would mean another moment on every machine, so it is refused."""
    if moment.tzinfo is None:
        raise ValueError(
            f"{moment!r} has no time zone; use for example datetime.now(UTC) + timedelta(minutes=5)"
        )
    return micros(moment.timestamp())


def as_datetime(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant / SECOND, UTC)
