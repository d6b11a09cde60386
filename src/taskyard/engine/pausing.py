"""Bodies that are asked to pause: each may go on to its next checkpoint, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger

log = logger("worker")


class Pauses:
    def __init__(self, grace: float) -> None:
        self._grace = grace
        # Looked at for every body that ends, so it is a plain attribute.
        self.asked: dict[Job, asyncio.TimerHandle] = {}

    def heed(self, asked: Iterable[Job]) -> None:
        """`asked`: all bodies that are to pause by now. The others of before may go on."""
        wanted = frozenset(asked)
        for job in self.asked.keys() - wanted:
            self.asked.pop(job).cancel()
            job.want_pause(False)
        for job in wanted - self.asked.keys():
            job.want_pause(True)
            loop = asyncio.get_running_loop()
            self.asked[job] = loop.call_later(self._grace, self._lose_patience, job)

    def ended(self, job: Job) -> None:
        if (timer := self.asked.pop(job, None)) is not None:
            timer.cancel()

    def _lose_patience(self, job: Job) -> None:
        if job.stop is None:
            log.info("a body is stopped to pause: it came to no checkpoint", task=job.claimed.id)
            job.ask(Stop.PAUSE)
