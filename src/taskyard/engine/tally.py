"""How attempts ended on this worker, how long they ran and had waited: added up, then stored."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict

from taskyard.domain.errors import StoreError
from taskyard.domain.outcome import Outcome, Paused, Verdict
from taskyard.domain.state import Reason, State
from taskyard.domain.statistics import RUN, RUN_SUM, WAIT, WAIT_SUM, Count, bucket_of
from taskyard.engine.job import Job
from taskyard.engine.log import logger
from taskyard.store.port import Store

EVERY = 10.0

log = logger("tally")


class Tally:
    """A body costs it a few additions; the store is called once in `every` seconds, if at all."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._counts: defaultdict[tuple[str, str, str, int], int] = defaultdict(int)
        self._unsent: list[Count] = []
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, job: Job, outcome: Outcome, verdict: Verdict) -> None:
        kind, lane, counts = job.kind.name, job.claimed.lane, self._counts
        ran = 0.0 if job.started is None else time.monotonic() - job.started
        waited = job.claimed.waited
        counts[kind, lane, how_it_ended(outcome, verdict), 0] += 1
        counts[kind, lane, RUN, bucket_of(ran)] += 1
        counts[kind, lane, RUN_SUM, 0] += round(ran * 1e6)
        counts[kind, lane, WAIT, bucket_of(waited)] += 1
        counts[kind, lane, WAIT_SUM, 0] += round(waited * 1e6)

    async def flush(self) -> None:
        """Store what there is. What could not be stored goes first the next time, as it was.

        A call that failed after the store had done it is counted twice: figures are not worth a
        write for each task that would prevent it.
        """
        while self._unsent or self._counts:
            if not self._unsent:
                self._unsent = [
                    Count(kind, lane, what, n, bucket)
                    for (kind, lane, what, bucket), n in self._counts.items()
                ]
                self._counts.clear()
            try:
                await self._store.tally(self._unsent)
            except StoreError as error:
                log.warning("tally", error=str(error), kept=len(self._unsent))
                return
            self._unsent = []

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._main(), name="taskyard-tally")

    async def stop(self) -> None:
        """Store the rest. Not by cancelling: a call cut short may have been done."""
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _main(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._stopping.wait()
            try:
                await self.flush()
            except Exception:
                log.exception("tally")


def how_it_ended(outcome: Outcome, verdict: Verdict) -> str:
    match verdict.state:
        case State.PENDING:
            return "snoozed" if verdict.reason is Reason.SNOOZED else "retried"
        case State.QUEUED:
            return "paused" if isinstance(outcome, Paused) else "released"
        case _:
            return verdict.state.value
