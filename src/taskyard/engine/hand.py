"""Everything a worker holds at one moment: what runs, what waits for a slot, what has ended."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator

from taskyard.domain.node import Hold
from taskyard.domain.outcome import Verdict
from taskyard.engine.job import Job

QUICK = 0.01  # seconds; bodies that end sooner may be claimed ahead
AHEAD = 0.05  # seconds of work that may wait here
MAX_AHEAD = 500  # of one claim
MAX_RESERVE = 2 * MAX_AHEAD  # one runs while the next one comes
TINY = 1e-6  # seconds
STARTED_LATE = 0.1  # seconds after which a task claimed ahead is given back, or told as started


class Hand:
    """The worker's slots, its short queue of tasks claimed ahead, and its verdicts to write."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.running: dict[int, Job] = {}
        self.ahead: deque[Job] = deque()
        self.verdicts: list[Verdict] = []
        self.writing: list[dict[int, int]] = []  # no -> attempt of verdicts under way to the store
        self.unmarked: dict[int, Job] = {}  # claimed ahead, running, and the store does not know
        self.last_taken: dict[str, float] = {}  # lane -> when (monotonic) a task of it began
        self.run_seconds = 1.0  # smoothed time a slot is taken
        self._emptied = asyncio.Event()

    @property
    def room(self) -> int:
        return self.room_beside(0)

    def room_beside(self, coming: int) -> int:
        """How many slots are left where so many tasks are about to come."""
        return max(0, self.slots - len(self.running) - len(self.ahead) - coming)

    @property
    def reserve(self) -> int:
        """How many may wait here for a slot: none unless slots turn over in milliseconds, and then
        what they get through in a moment."""
        if self.run_seconds >= QUICK:
            return 0
        return min(MAX_RESERVE, int(self.slots * AHEAD / max(self.run_seconds, TINY)))

    def free_reserve_beside(self, coming: int) -> int:
        """How many of those one claim may bring now: none until that is worth a claim."""
        reserve = self.reserve
        free = reserve - len(self.ahead) - coming
        return min(MAX_AHEAD, free) if free >= reserve // 2 > 0 else 0

    def numbers(self) -> set[int]:
        """Of the tasks in our hands, in whatever way."""
        waiting = {job.claimed.no for job in self.ahead}
        ended = (verdict.no for verdict in self.verdicts)
        return waiting.union(self.running, *self.writing, ended)

    def took(self, job: Job) -> None:
        claimed = job.claimed
        self.running[claimed.no] = job
        self.last_taken[claimed.lane] = job.taken

    def ended(self, job: Job) -> None:
        no, running = job.claimed.no, self.running
        if running.get(no) is job:  # and not a later attempt
            del running[no]
            self.unmarked.pop(no, None)
        if job.started is not None:
            self.run_seconds += (job.ran - self.run_seconds) * 0.1
        if not running:
            self._emptied.set()

    async def emptied(self, seconds: float) -> None:
        """Wait until nothing runs, at most so long."""
        deadline = time.monotonic() + seconds
        while self.running and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            try:
                async with asyncio.timeout(left):
                    await self._emptied.wait()
            except TimeoutError:
                return

    def has_overdue(self, now: float) -> bool:
        return bool(self.ahead) and now - self.ahead[0].taken > STARTED_LATE

    def overdue_ahead(self, now: float) -> Iterator[Job]:
        """Those claimed ahead that have waited too long: a slot elsewhere may be free."""
        while self.has_overdue(now):
            self.run_seconds = 1.0  # slots do not turn over any more: claim no further ahead
            yield self.ahead.popleft()

    def to_mark(self, now: float) -> list[Job]:
        """Those claimed ahead that have been running for a while: the store should know."""
        return [
            job
            for job in self.unmarked.values()
            if job.started is not None and now - job.started > STARTED_LATE
        ]

    def marked(self, jobs: Iterable[Job]) -> None:
        """The store knows of these."""
        for job in jobs:
            if self.unmarked.get(job.claimed.no) is job:  # and not a later attempt
                del self.unmarked[job.claimed.no]

    def knows(self, hold: Hold) -> bool:
        """Whether this attempt is in our hands, in whatever way."""
        if any(writing.get(hold.no) == hold.attempt for writing in self.writing):
            return True
        job = self.running.get(hold.no)
        if job is not None and job.claimed.attempt == hold.attempt:
            return True
        return any(
            job.claimed.no == hold.no and job.claimed.attempt == hold.attempt for job in self.ahead
        ) or any(v.no == hold.no and v.attempt == hold.attempt for v in self.verdicts)
