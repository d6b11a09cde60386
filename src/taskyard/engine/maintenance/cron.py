"""Starts periodic tasks when their time has come: each tick once, however many are on duty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from taskyard.domain.clock import Instant, seconds
from taskyard.domain.cron import Cron, CronEntry, Ticks, tick_id, ticks
from taskyard.domain.errors import StoreError
from taskyard.domain.task import Enqueue, NewTask, Refused
from taskyard.engine import journal
from taskyard.engine.log import logger
from taskyard.engine.maintenance.duty import Duty, Steward
from taskyard.engine.notifier import Notifier
from taskyard.store.port import Store

LOOK_SECONDS = 1.0  # between two looks at the entries, however many hints come

log = logger("cron")


class CronStarter(Duty):
    """The store lets each tick be started once: the duty only saves others the questions."""

    name = "cron"
    idle_seconds = 10.0
    heeds_hints = True  # an entry may have come or changed

    def __init__(self, store: Store, notifier: Notifier, steward: Steward) -> None:
        super().__init__(store, notifier, steward)
        self._broken: dict[str, Cron] = {}
        self._looked = float("-inf")

    async def perform(self) -> float | None:
        since = time.monotonic() - self._looked
        if since < LOOK_SECONDS:
            await asyncio.sleep(LOOK_SECONDS - since)
        self._looked = time.monotonic()
        entries, now = await self.store.crons(), await self.store.now()
        self._broken = {e.cron.name: e.cron for e in entries if self._is_broken(e.cron)}
        sound = [entry for entry in entries if not self._is_broken(entry.cron)]
        waiting = [await self._start_due(entry, now) for entry in sound]
        due = [next_at for next_at in waiting if next_at is not None]
        return max(0.0, seconds(min(due) - now)) if due else None

    async def _start_due(self, entry: CronEntry, now: Instant) -> Instant | None:
        """Start what is due of this entry; says what it waits for then."""
        if entry.cron.paused or entry.next_at is None:
            return None
        if entry.next_at > now:
            return entry.next_at
        try:
            found = ticks(entry, now)
            await self._fire(entry, entry.next_at, found)
        except StoreError:
            raise  # not the entry's doing: the next one would fare no better
        except Exception as error:
            log.error("a periodic task cannot be started", cron=entry.cron.name, error=str(error))
            self._broken[entry.cron.name] = entry.cron
            return None
        return found.next_at

    async def _fire(self, entry: CronEntry, due: Instant, found: Ticks) -> None:
        name = entry.cron.name
        tasks = [task_of(entry.cron, tick) for tick in found.start]
        answers = await self.store.fire_cron(name, due, tasks, found)
        if answers is None:
            log.debug("another one was faster", cron=name)
            return
        self._notifier.ring()
        _tell(name, tasks, answers)

    def _is_broken(self, cron: Cron) -> bool:
        """It is left alone until it is changed."""
        return self._broken.get(cron.name) == cron


def task_of(cron: Cron, tick: Instant) -> NewTask:
    task = msgspec.structs.replace(cron.task, id=tick_id(cron.name, tick))
    task.check()
    return task


def _tell(name: str, tasks: Sequence[NewTask], answers: Sequence[Enqueue]) -> None:
    for task, answer in zip(tasks, answers, strict=True):
        if isinstance(answer, Refused):
            log.warning("a tick was refused", cron=name, task=task.id, why=answer.reason)
    journal.enqueued(tasks, answers, cron=name)
