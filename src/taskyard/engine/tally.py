"""How attempts ended on this worker, how long they ran and had waited: added up, then stored."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict

from taskyard.domain.clock import micros
from taskyard.domain.errors import StoreError
from taskyard.domain.outcome import Outcome, Paused, Verdict
from taskyard.domain.state import Reason, State
from taskyard.domain.statistics import RUN, RUN_SUM, WAIT, WAIT_SUM, Count, classes
from taskyard.engine.job import Job
from taskyard.engine.log import logger
from taskyard.store.port import Store

EVERY = 10.0
MOST_TIMES = 1000
COMPLETED = State.COMPLETED.value

_End = tuple[str, str, str, float, float]  # kind, lane, how, seconds it ran and waited

log = logger("tally")


class Tally:
    """A body costs it a few additions; the store is called once in `every` seconds, if at all."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._ended: list[_End] = []
        self._counts: Counter[tuple[str, str, str, int]] = Counter()
        self._unsent: list[Count] = []
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, job: Job, how: str) -> None:
        claimed, ended = job.claimed, self._ended
        ended.append((job.kind.name, claimed.lane, how, job.ran, claimed.waited))
        if len(ended) >= MOST_TIMES:
            self._fold()

    def _fold(self) -> None:
        """Into counts. Whatever has been added so far needs no more room, however much it was.

        They are counted, and put into classes, many at once.
        """
        alike: defaultdict[tuple[str, str], list[_End]] = defaultdict(list)
        for end in self._ended:
            alike[end[:2]].append(end)
        self._ended.clear()
        counts = self._counts
        for (kind, lane), ends in alike.items():
            _, _, hows, ran, waited = zip(*ends, strict=True)
            for what, n in Counter(hows).items():
                counts[kind, lane, what, 0] += n
            for what, times in ((RUN, ran), (WAIT, waited)):
                for bucket, n in classes(times).items():
                    counts[kind, lane, what, bucket] += n
            counts[kind, lane, RUN_SUM, 0] += micros(sum(ran))
            counts[kind, lane, WAIT_SUM, 0] += micros(sum(waited))

    async def flush(self) -> None:
        """Store what there is. What could not be stored goes first the next time, as it was.

        A call that failed after the store had done it is counted twice: figures are not worth a
        write for each task that would prevent it.
        """
        self._fold()
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
