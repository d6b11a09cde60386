"""Periodic tasks: when they are due, and what is started then.

The store keeps the entries and lets each tick be started once; which moments a schedule means is
said here.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from taskyard.domain.clock import LAST, Instant, as_datetime, as_instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import MAX_NAME, NewTask, check_name

FIELDS = 5  # ticks come by the minute
MAX_CAUGHT_UP = 1000  # ticks that are made up for at once, the latest ones


class CatchUp(StrEnum):
    """What becomes of the ticks that passed while nobody could start them."""

    SKIP = "skip"  # nothing: the next one is that after now
    ONE = "one"  # the last of them is started
    ALL = "all"  # each is started


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started, and when."""

    name: str
    schedule: str  # five fields: minute hour day month weekday
    task: NewTask  # what each tick starts; its id is not used
    timezone: str = "UTC"
    catch_up: CatchUp = CatchUp.ONE
    paused: bool = False
    declared: bool = False  # by a program, which may change it; an operator's stays

    def check(self) -> None:
        check_name("cron", self.name)
        room = MAX_NAME - len(tick_id("", LAST))
        if len(self.name) > room:
            raise InvalidOption(
                f"cron is longer than {room} characters, which its tasks' ids have room for: "
                f"{self.name[:40]}…"
            )
        self.task.check()
        if (fields := len(self.schedule.split())) != FIELDS:
            raise self._no_schedule(f"{fields} fields")
        next(self._simulation(as_datetime(0)), None)

    def after(self, moment: Instant) -> Instant | None:
        """The first tick after this moment; None: there is none within the next years."""
        tick = next(self._simulation(as_datetime(moment)), None)
        return None if tick is None else as_instant(tick)

    def latest(self, moment: Instant, count: int) -> list[Instant]:
        """The last ticks up to this moment, in order, at most so many."""
        back = self._simulation(as_datetime(moment + 1), reverse=True)  # yields what is before
        return [as_instant(tick) for tick in islice(back, count)][::-1]

    def _simulation(self, since: datetime, *, reverse: bool = False) -> CronSim:
        try:
            zone = ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError) as error:
            raise InvalidOption(f"cron {self.name}: no time zone {self.timezone!r}") from error
        try:
            return CronSim(self.schedule, since.astimezone(zone), reverse=reverse)
        except CronSimError as error:
            raise self._no_schedule(str(error)) from error

    def _no_schedule(self, why: str) -> InvalidOption:
        return InvalidOption(
            f"cron {self.name}: {self.schedule!r} is no schedule ({why}); "
            "it has five fields: minute hour day month weekday, as in */5 * * * *"
        )


def tick_id(name: str, tick: Instant) -> str:
    """The id of the task that this tick starts: whoever starts it again is told so."""
    return f"cron:{name}:{as_datetime(tick).isoformat()}"


class CronEntry(msgspec.Struct, frozen=True):
    """A cron as the store keeps it."""

    cron: Cron
    next_at: Instant | None  # the tick it waits for
    last_at: Instant | None = None  # the last one that was started


class Ticks(msgspec.Struct, frozen=True):
    start: tuple[Instant, ...]  # to be started now, in order
    next_at: Instant | None  # to wait for


def ticks(entry: CronEntry, now: Instant) -> Ticks:
    """What to start of an entry whose tick has come, and what to wait for then."""
    passed: list[Instant] = []
    tick = entry.next_at
    while tick is not None and tick <= now:
        passed.append(tick)
        if len(passed) > MAX_CAUGHT_UP:
            # Those of years would take long to count: only the last ones matter.
            passed, tick = entry.cron.latest(now, MAX_CAUGHT_UP), entry.cron.after(now)
            break
        tick = entry.cron.after(tick)
    match entry.cron.catch_up:
        case CatchUp.ALL:
            start = passed
        case CatchUp.ONE:
            start = passed[-1:]
        case CatchUp.SKIP:
            # A tick that is only just over is not one that was missed.
            start = [tick for tick in passed[-1:] if now - tick < SKIPPED_AFTER]
    return Ticks(tuple(start), tick)


SKIPPED_AFTER: Instant = 60_000_000
