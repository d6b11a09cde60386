"""What an enqueue may say beside the arguments."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, Protocol, TypeVar

import msgspec

from taskyard.domain.clock import FIRST, LAST, Instant, as_instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import Clash, Dedup, OnFailure, Until

E = TypeVar("E", Until, Clash, OnFailure)

UntilName = Until | Literal["start", "end"]
ClashName = Clash | Literal["keep", "replace", "debounce"]
OnFailureName = OnFailure | Literal["cancel", "run"]
IfKeyHeld = Literal["wait", "refuse"]


class HasId(Protocol):
    """A handle, or a task that is not saved yet."""

    @property
    def id(self) -> str: ...


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """None: as the kind is declared, or as it was said before."""

    id: str | None = None
    lane: str | None = None
    priority: int | None = None
    keys: tuple[str, ...] = ()
    if_key_held: str | None = None
    group: str | None = None
    dedup: str | None = None
    dedup_until: Until | None = None
    on_duplicate: Clash | None = None
    depends_on: tuple[str, ...] = ()
    on_failure: OnFailure | None = None
    requires: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int | None = None
    delay: float | None = None
    run_at: Instant | None = None
    deadline: Instant | None = None

    def check(self) -> None:
        if self.retries is not None and self.retries < 0:
            raise InvalidOption(f"retries must be 0 or more, not {self.retries}")
        if self.if_key_held not in (None, "wait", "refuse"):
            raise InvalidOption(f"if_key_held must be wait or refuse, not {self.if_key_held!r}")

    def then(self, later: Options) -> Options:
        """These, and what was said later."""
        if self is NOTHING_SAID:
            return later
        said = msgspec.structs.asdict(later)
        return msgspec.structs.replace(
            self, **{name: value for name, value in said.items() if value not in (None, ())}
        )

    def as_dedup(self) -> Dedup | None:
        if self.dedup is None:
            if self.on_duplicate is not None:
                raise InvalidOption("on_duplicate goes with dedup, which names the key")
            return None
        return Dedup(self.dedup, self.dedup_until or Until.END, self.on_duplicate or Clash.KEEP)


NOTHING_SAID = Options()


def names(option: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        single = "; for a single one use key=" if option == "keys" else ""
        raise InvalidOption(f"{option} takes a list of names{single}")
    return tuple(given)


def ids(given: Iterable[HasId | str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidOption("depends_on takes a list of tasks: handles, ids or new tasks")
    return tuple(one if isinstance(one, str) else one.id for one in given)


def choice(option: str, kind: type[E], given: str | None) -> E | None:
    if given is None:
        return None
    try:
        return kind(given)
    except ValueError:
        raise InvalidOption(f"{option} must be {' or '.join(kind)}, not {given!r}") from None


def instant(option: str, moment: datetime | None) -> Instant | None:
    if moment is None:
        return None
    try:
        at = as_instant(moment)
    except ValueError as error:
        raise InvalidOption(f"{option}: {error}") from None
    if not FIRST <= at <= LAST:
        raise InvalidOption(f"{option} is not within the years 1 to 9999: {moment}")
    return at
