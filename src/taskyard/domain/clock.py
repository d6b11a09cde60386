"""How Taskyard counts time."""

from __future__ import annotations

from datetime import UTC, datetime

Instant = int
"""Microseconds since the Unix epoch, by the store's clock."""

SECOND: Instant = 1_000_000


def micros(seconds: float) -> Instant:
    return round(seconds * SECOND)


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
