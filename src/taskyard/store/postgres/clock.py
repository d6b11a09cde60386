"""Time on PostgreSQL: the server's."""

from __future__ import annotations

from taskyard.domain.clock import Instant, micros


class PostgresClock:
    """How far time is moved from the server's: not at all, except in tests."""

    def __init__(self) -> None:
        self._offset: Instant = 0

    def reading(self) -> Instant:
        """What every verb is told: see moment in functions/010_basics.sql."""
        return self._offset

    def advance(self, seconds: float) -> None:
        self._offset += micros(seconds)
