"""Suspects in line: after a death dozens may come at once, and each wants a new process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial

from taskyard.domain.outcome import Outcome, Released, Snoozed
from taskyard.engine.executor import Done
from taskyard.engine.job import Job

PATIENCE = 1.0  # seconds one waits here; its slot is not kept from others for longer
PUT_OFF = 5.0  # seconds after which one that has waited in vain may be claimed again, by anyone


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Suspects:
    """As many run at once as there are processors. The time of those that wait has not begun."""

    def __init__(self, start: Callable[[Job], None], done: Done) -> None:
        self._start = start
        self._done = done
        self._most = processors()
        self._running: set[Job] = set()
        self._waiting: dict[Job, asyncio.TimerHandle] = {}  # in order

    def add(self, job: Job) -> None:
        if len(self._running) < self._most:
            self._begin(job)
            return
        loop = asyncio.get_running_loop()
        job.cancel = partial(self._asked, job)
        self._waiting[job] = loop.call_later(PATIENCE, self._leave, job, Snoozed(PUT_OFF))

    def ended(self, job: Job) -> None:
        """The body of this one has; the next may begin."""
        self._running.discard(job)
        while self._waiting and len(self._running) < self._most:
            waiting = next(iter(self._waiting))
            self._waiting.pop(waiting).cancel()
            self._begin(waiting)

    def give_back(self) -> None:
        """Nobody is waited for any more."""
        for job in list(self._waiting):
            self._leave(job, Released())

    def _begin(self, job: Job) -> None:
        self._running.add(job)
        self._start(job)

    def _asked(self, job: Job) -> None:
        """Not here and now: whoever asks may be in the middle of asking others."""
        asyncio.get_running_loop().call_soon(self._stopped, job)

    def _stopped(self, job: Job) -> None:
        self._leave(job, job.stopped())

    def _leave(self, job: Job, outcome: Outcome) -> None:
        timer = self._waiting.pop(job, None)
        if timer is not None:
            timer.cancel()
            self._done(job, outcome)
