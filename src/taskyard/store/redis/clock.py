"""Time on Redis: the server's clock, which tests may move."""

from __future__ import annotations

from taskyard.domain.clock import Instant, micros


class RedisClock:
    """Tells the scripts what time it is: the server's, moved by so much."""

    def __init__(self) -> None:
        self._offset: Instant = 0

    def word(self) -> str:
        """As lua/parts/base.lua takes it: an offset, or `=` and the time itself."""
        return str(self._offset)

    def advance(self, seconds: float) -> None:
        """For tests."""
        self._offset += micros(seconds)
