"""Lanes and keys: the two things a task waits for room in."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from taskyard.domain.clock import LONGEST, Instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.rate import Rate

DEFAULT_KEY_LIMIT = 1
MAX_LIMIT = 1_000_000_000


MAX_REORDERED = 1000  # queued tasks a lane may have when its order is changed


class Order(StrEnum):
    """What a lane starts first. The place of a queued task is (rank, seq); see domain/order.py."""

    PRIORITY = "priority"  # by priority, then arrival, passing over what is blocked
    FIFO = "fifo"  # by arrival alone: the head or nothing
    FAIR = "fair"  # groups in rotation; by priority, then arrival, inside a group


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: int | None = None  # most running at once, over all machines
    max_depth: int | None = None  # most waiting (pending or queued); enqueue is refused beyond it
    rate: Rate | None = None  # how often something may start
    order: Order = Order.PRIORITY
    ageing: float | None = None  # seconds of waiting that count as much as one step of priority
    paused: bool = False
    paused_reason: str | None = None
    paused_until: Instant | None = None  # when it goes on by itself
    running: int = 0
    queued: int = 0
    pending: int = 0


class LaneChange(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a lane; what is unset stays."""

    capacity: int | msgspec.UnsetType | None = msgspec.UNSET
    max_depth: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: Rate | msgspec.UnsetType | None = msgspec.UNSET
    order: Order | msgspec.UnsetType = msgspec.UNSET
    ageing: float | msgspec.UnsetType | None = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    paused_reason: str | None = None  # these two go with paused=True
    paused_until: Instant | None = None

    def check(self) -> None:
        if isinstance(self.capacity, int) and self.capacity < 0:
            raise InvalidOption(
                f"capacity must be 0 or more, or none for no limit, not {self.capacity}"
            )
        if isinstance(self.capacity, int) and self.capacity > MAX_LIMIT:
            raise InvalidOption(f"capacity must be at most {MAX_LIMIT:,}, or none for no limit")
        if isinstance(self.max_depth, int) and not 0 <= self.max_depth <= MAX_LIMIT:
            raise InvalidOption(
                f"max depth must be from 0 to {MAX_LIMIT:,}, or none for no limit, "
                f"not {self.max_depth}"
            )
        if isinstance(self.rate, Rate):
            self.rate.check()
        if self.paused_reason is not None:
            _check_reason(self.paused_reason)
        if isinstance(self.ageing, int | float) and not 0 < self.ageing <= LONGEST:
            raise InvalidOption(
                f"ageing is the seconds that count as one step of priority: more than 0, or none, "
                f"not {self.ageing:g}"
            )


def _check_reason(text: str) -> None:
    """No store keeps a NUL, nor what is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"reason cannot be written as UTF-8: {text!r}") from None
    if "\0" in text:
        raise InvalidOption(f"reason contains a NUL: {text!r}")


class KeyRule(msgspec.Struct, frozen=True):
    """`host:*` is a prefix, anything else an exact name."""

    pattern: str
    limit: int
    rate: Rate | None = None  # of each key that the rule is for

    def check(self) -> None:
        if self.rate is not None:
            self.rate.check()
        if self.limit < 0:
            raise InvalidOption(f"a key's limit must be 0 or more, not {self.limit}")
        if self.limit > MAX_LIMIT:
            raise InvalidOption(f"a key's limit must be at most {MAX_LIMIT:,}")
        if not self.pattern:
            raise InvalidOption("a key rule needs a name or a prefix such as host:*")
        if "*" in self.pattern[:-1]:
            raise InvalidOption(f"* may only stand at the end of a key rule: {self.pattern}")


class KeyRules:
    """Finds a key's rule: the exact one, else the longest prefix, else a limit of 1."""

    def __init__(self, rules: Iterable[KeyRule] = ()) -> None:
        self._exact: dict[str, KeyRule] = {}
        prefixes: list[tuple[str, KeyRule]] = []
        for rule in rules:
            if rule.pattern.endswith("*"):
                prefixes.append((rule.pattern[:-1], rule))
            else:
                self._exact[rule.pattern] = rule
        self._prefixes = sorted(prefixes, key=lambda prefix: -len(prefix[0]))

    def rule(self, key: str) -> KeyRule | None:
        exact = self._exact.get(key)
        if exact is not None:
            return exact
        return next((rule for prefix, rule in self._prefixes if key.startswith(prefix)), None)

    def of(self, keys: Iterable[str]) -> dict[str, KeyRule]:
        """The rules of those of these keys that have one."""
        if not self._exact and not self._prefixes:
            return {}
        return {key: rule for key in keys if (rule := self.rule(key)) is not None}

    def limit(self, key: str) -> int:
        rule = self.rule(key)
        return DEFAULT_KEY_LIMIT if rule is None else rule.limit

    def rate(self, key: str) -> Rate | None:
        rule = self.rule(key)
        return None if rule is None else rule.rate


class Key(msgspec.Struct, frozen=True):
    """A key that is held or waited for; there is no row for any other."""

    name: str
    limit: int
    holders: tuple[str, ...]  # ids of the running tasks that hold it
    waiting: int


class Audited(msgspec.Struct, frozen=True):
    """Who did what to which thing, and when."""

    no: int
    at: Instant
    actor: str
    action: str
    subject: str  # task:ID, lane:NAME, key:PATTERN, node:ID, yard
    detail: str = ""
