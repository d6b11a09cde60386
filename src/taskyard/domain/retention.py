"""How long ended tasks and lines of the audit trail are kept, and when the old ones go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from taskyard.domain.clock import LONGEST, Instant, as_datetime, as_instant, bounded, micros
from taskyard.domain.errors import InvalidOption
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.task import check_name

FOREVER = timedelta.max
_DAY = timedelta(days=1)


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How long the tasks of a lane or a kind are kept; None: as the wider setting says."""

    completed: timedelta | None = None
    failed: timedelta | None = None
    cancelled: timedelta | None = None

    def of(self, state: State) -> timedelta | None:
        kept: timedelta | None = getattr(self, state)
        return kept


class Ages(msgspec.Struct, frozen=True):
    """From which age on tasks in one state go, in microseconds: that of the kind, else of the lane,
    else the common one."""

    common: Instant
    lanes: Mapping[str, Instant]
    kinds: Mapping[str, Instant]

    @property
    def youngest(self) -> Instant:
        """No task younger than this goes."""
        return min((self.common, *self.lanes.values(), *self.kinds.values()))

    def of(self, lane: str, kind: str) -> Instant:
        return self.kinds.get(kind, self.lanes.get(lane, self.common))


class Pruned(msgspec.Struct, frozen=True):
    """What a run has removed, or what it would remove."""

    tasks: int = 0
    audit: int = 0  # lines of the audit trail


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What is older goes daily at `at` in the time zone `zone`. The most specific setting counts:
    the kind's, then the lane's, then these."""

    completed: timedelta = timedelta(days=7)
    failed: timedelta = timedelta(days=30)
    cancelled: timedelta = timedelta(days=30)
    lanes: Mapping[str, Keep] = {}
    kinds: Mapping[str, Keep] = {}
    audit: timedelta = timedelta(days=90)
    statistics: timedelta = timedelta(days=90)
    at: time = time(2)
    zone: str = "UTC"

    def check(self) -> None:
        for what, kept in self._settings():
            if kept is not None and not isinstance(kept, timedelta):
                raise InvalidOption(f"{what} is kept for a timedelta, not {kept!r}")
            if kept is not None and kept < timedelta(0):
                raise InvalidOption(f"{what} is kept for a time of 0 or more, not {kept}")
        for what, names in (("lane", self.lanes), ("kind", self.kinds)):
            for name in names:
                check_name(what, name)
        if self.at.tzinfo is not None:
            raise InvalidOption(f"{self.at} has a time zone of its own; name it as `zone` instead")
        self._tz()

    def _settings(self) -> Iterator[tuple[str, timedelta | None]]:
        for state in sorted(TERMINAL):
            yield f"what is {state}", getattr(self, state)
            for name, keep in (*self.lanes.items(), *self.kinds.items()):
                yield f"what is {state} of {name}", keep.of(state)
        yield "the audit trail", self.audit
        yield "statistics", self.statistics

    def ages(self, state: State) -> Ages:
        return Ages(
            _age(getattr(self, state)), _named(self.lanes, state), _named(self.kinds, state)
        )

    @property
    def audit_age(self) -> Instant:
        return _age(self.audit)

    @property
    def statistics_age(self) -> Instant:
        return _age(self.statistics)

    def older_than(self, age: timedelta) -> Retention:
        """For once: all ended tasks of this age go, whatever their lane or kind."""
        changed = msgspec.structs.replace(
            self, completed=age, failed=age, cancelled=age, lanes={}, kinds={}
        )
        changed.check()
        return changed

    def aged(self, by: Instant) -> Retention:
        """The same for tasks, with every age longer by so much."""
        return msgspec.structs.replace(
            self,
            **{state: _longer(getattr(self, state), by) for state in TERMINAL},
            lanes={name: _all_longer(keep, by) for name, keep in self.lanes.items()},
            kinds={name: _all_longer(keep, by) for name, keep in self.kinds.items()},
        )

    # --- when ---

    def last_time(self, now: Instant) -> Instant:
        """The moment up to `now` at which old tasks were to go."""
        moment = self._on(now, days=0)
        return moment if moment <= now else self._on(now, days=-1)

    def next_time(self, now: Instant) -> Instant:
        moment = self._on(now, days=0)
        return moment if moment > now else self._on(now, days=1)

    def _on(self, now: Instant, *, days: int) -> Instant:
        """A time that the clocks of the zone pass over or show twice is one moment all the same."""
        zone = self._tz()
        day = as_datetime(now).astimezone(zone).date() + days * _DAY
        return as_instant(datetime.combine(day, self.at, zone))

    def _tz(self) -> tzinfo:
        if self.zone == "UTC":
            return UTC  # also where no database of time zones is installed
        try:
            return ZoneInfo(self.zone)
        except (OSError, ValueError, KeyError):
            raise InvalidOption(
                f"there is no time zone {self.zone!r} here; names are such as Europe/Paris "
                "(pip install tzdata brings them all)"
            ) from None


def _named(settings: Mapping[str, Keep], state: State) -> dict[str, Instant]:
    """The ages of those that say something of their own of this state."""
    kept = {name: keep.of(state) for name, keep in settings.items()}
    return {name: _age(one) for name, one in kept.items() if one is not None}


def _all_longer(keep: Keep, by: Instant) -> Keep:
    given = {state: keep.of(state) for state in TERMINAL}
    return Keep(**{s: kept if kept is None else _longer(kept, by) for s, kept in given.items()})


def _longer(kept: timedelta, by: Instant) -> timedelta:
    more = timedelta(microseconds=by)
    return FOREVER if kept > FOREVER - more else kept + more


def _age(kept: timedelta) -> Instant:
    return micros(LONGEST if kept == FOREVER else bounded(kept.total_seconds()))
