"""Removes what has been kept long enough: daily as a duty, or when somebody asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from taskyard.domain.clock import Instant
from taskyard.domain.retention import Pruned, Retention
from taskyard.engine.log import logger
from taskyard.engine.maintenance.duty import Duty, Steward
from taskyard.engine.notifier import Notifier
from taskyard.store.port import Mark, Store

log = logger("prune")

REST = 4.0  # times as long as a step took: claims have the store for themselves most of the time


class PruneRun:
    """One run, a step at a time."""

    def __init__(
        self, store: Store, retention: Retention, *, actor: str, dry_run: bool = False
    ) -> None:
        self._store = store
        self._retention = retention
        self._actor = actor
        self._dry_run = dry_run
        self._mark: Mark | None = None
        self.pruned = Pruned()

    async def step(self) -> float | None:
        """The next step; says how many seconds to rest before the one after it, if there is one."""
        began = time.monotonic()
        step = await self._store.prune(
            self._retention, actor=self._actor, after=self._mark, dry_run=self._dry_run
        )
        self._mark = step.mark
        self.pruned = Pruned(self.pruned.tasks + step.tasks, self.pruned.audit + step.audit)
        return None if step.mark is None else REST * (time.monotonic() - began)


async def prune(
    store: Store,
    retention: Retention,
    *,
    actor: str,
    dry_run: bool = False,
    told: Callable[[int], None] = lambda _: None,
) -> Pruned:
    """A whole run; `told` hears after each step how many tasks have gone so far."""
    run = PruneRun(store, retention, actor=actor, dry_run=dry_run)
    while (rest := await run.step()) is not None:
        told(run.pruned.tasks)
        await asyncio.sleep(rest)
    told(run.pruned.tasks)
    return run.pruned


class Pruner(Duty):
    """Every day at the time of the retention; at once if the last time was missed."""

    name = "prune"
    idle_seconds = 60.0

    def __init__(
        self, store: Store, notifier: Notifier, steward: Steward, retention: Retention
    ) -> None:
        super().__init__(store, notifier, steward)
        self._retention = retention
        self._next: Instant | None = None
        self._run: PruneRun | None = None

    async def perform(self) -> float | None:
        """One step at most, so that the duty is renewed in time however long the run is."""
        if self._run is None:
            if not await self._has_come():
                return None
            self._run = PruneRun(self.store, self._retention, actor="system")
        rest = await self._run.step()
        if rest is None:
            self._tell(self._run.pruned)
            self._run = None
        return rest

    async def _has_come(self) -> bool:
        """The next time is set last: a look that failed is a look still to come."""
        now = await self.store.now()
        if self._next is None:
            come = await self._was_missed(now)
        elif not (come := now >= self._next):
            return False
        self._next = self._retention.next_time(now)
        return come

    async def _was_missed(self, now: Instant) -> bool:
        """Whether something is still here that was to go the last time: nobody was, or died."""
        due = self._retention.aged(now - self._retention.last_time(now))
        run = PruneRun(self.store, due, actor="system", dry_run=True)
        rest: float | None = 0.0
        while rest is not None and not run.pruned.tasks:
            await asyncio.sleep(rest)
            rest = await run.step()
        return run.pruned.tasks > 0

    @staticmethod
    def _tell(pruned: Pruned) -> None:
        if pruned != Pruned():
            log.info("prune", tasks=pruned.tasks, audit=pruned.audit)
