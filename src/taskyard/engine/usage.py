"""What a worker uses of its machine."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

from taskyard.domain.node import Usage
from taskyard.engine.log import logger

log = logger("worker")


class Meter:
    """Measures this process and everything that it has started, isolated bodies above all."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._at = time.monotonic()
        self._cpu = _sum(self._process.children(recursive=True), self._process).cpu
        self.resident = 0  # bytes in memory, of this process alone

    def measure(self) -> Usage | None:
        """From any thread, one at a time; None if the system does not tell."""
        try:
            return self._measure()
        except (psutil.Error, OSError) as error:
            log.debug("usage", error=str(error))
            return None

    def _measure(self) -> Usage:
        now = time.monotonic()
        self.resident = self._process.memory_info().rss
        total = _sum(self._process.children(recursive=True), self._process)
        passed, self._at = now - self._at, now
        cpu, self._cpu = total.cpu - self._cpu, total.cpu
        return Usage(
            cpu=round(max(0.0, cpu) / passed, 4) if passed > 0 else 0.0,
            memory=total.memory,
            read_bytes=total.read,
            written_bytes=total.written,
            processes=total.count,
        )


class _Total:
    def __init__(self) -> None:
        self.cpu = 0.0
        self.memory = 0
        self.read = 0
        self.written = 0
        self.count = 0

    def add(self, process: psutil.Process) -> None:
        """What children have used that are gone is kept with whoever has reaped them."""
        with process.oneshot():
            times = process.cpu_times()
            self.cpu += times.user + times.system + times.children_user + times.children_system
            self.memory += process.memory_info().rss
            self.count += 1
            if hasattr(process, "io_counters"):  # not on macOS
                io = process.io_counters()
                self.read += io.read_bytes
                self.written += io.write_bytes


def _sum(others: Iterable[psutil.Process], this: psutil.Process) -> _Total:
    total = _Total()
    total.add(this)
    for process in others:
        try:
            total.add(process)
        except psutil.Error:
            continue  # it has ended meanwhile, or has become another user's
    return total
