"""Time on SQLite: the wall clock for due times, boot time for leases."""

from __future__ import annotations

import time
from pathlib import Path

from taskyard.domain.clock import Instant, micros

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SqliteClock:
    """Leases are in boot time: it goes on while the machine sleeps and cannot be set.

    After a reboot it starts anew, so a lease also names the boot it belongs to.
    """

    def __init__(self) -> None:
        self._offset: Instant = 0
        self.boot_id = _read_boot_id()

    def now(self) -> Instant:
        return time.time_ns() // 1000 + self._offset

    def boot(self) -> Instant:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1000 + self._offset

    def advance(self, seconds: float) -> None:
        """Move both clocks: for tests."""
        self._offset += micros(seconds)


# Not every system has it; the monotonic clock differs only across sleep.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _read_boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown-boot"
