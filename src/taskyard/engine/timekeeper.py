"""Ends bodies that run longer than their timeout."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger

AGAIN = 1.0

log = logger("timekeeper")


class Timekeeper:
    """One timer for all: set for the earliest deadline, so starting a body costs a comparison."""

    def __init__(self, running: Mapping[int, Job], grace: float) -> None:
        self._running = running
        self._grace = grace
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def watch(self, job: Job) -> None:
        """Its body begins."""
        if job.begin() < self._next:
            self._set(job.deadline)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._next = float("inf")

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = when
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, when - time.monotonic()), self._look)

    def _look(self) -> None:
        now = time.monotonic()
        earliest = float("inf")
        for job in list(self._running.values()):
            if job.deadline <= now:
                self._end(job, now)
                earliest = min(earliest, now + AGAIN)
            else:
                earliest = min(earliest, job.deadline)
        self._next = earliest
        self._timer = None
        if earliest < float("inf"):
            self._set(earliest)

    def _end(self, job: Job, now: float) -> None:
        """Asked again after each grace until it is gone: only then are its room and keys free."""
        if job.stop is None:
            log.warning("timeout", task=job.claimed.id, kind=job.kind.name, style=job.style)
        elif now - job.asked < self._grace:
            return
        else:
            late = round(now - job.deadline)
            log.error("a body ignores its timeout", task=job.claimed.id, seconds_late=late)
        job.ask(Stop.TIMEOUT)
