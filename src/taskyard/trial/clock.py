"""Time that stands still until it is moved."""

from __future__ import annotations

from taskyard.domain.clock import Instant
from taskyard.store.sqlite.clock import SqliteClock


class StillClock(SqliteClock):
    def __init__(self, start: Instant | None = None) -> None:
        super().__init__()
        began = super().now() if start is None else start
        self._began, self._booted = began, super().boot()

    def now(self) -> Instant:
        return self._began + self._offset

    def boot(self) -> Instant:
        return self._booted + self._offset
