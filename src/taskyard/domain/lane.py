"""Lanes and keys: the two things a task waits for room in."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.errors import InvalidOption

DEFAULT_KEY_LIMIT = 1
MAX_LIMIT = 1_000_000_000


class Order(StrEnum):
    PRIORITY = "priority"  # by (priority, seq), passing over what is blocked


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: int | None = None  # most running at once, over all machines
    paused: bool = False
    paused_reason: str | None = None
    order: Order = Order.PRIORITY
    running: int = 0
    queued: int = 0
    pending: int = 0


class LaneChange(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a lane; what is unset stays."""

    capacity: int | msgspec.UnsetType | None = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    paused_reason: str | None = None

    def check(self) -> None:
        if isinstance(self.capacity, int) and self.capacity < 0:
            raise InvalidOption(
                f"capacity must be 0 or more, or none for no limit, not {self.capacity}"
            )
        if isinstance(self.capacity, int) and self.capacity > MAX_LIMIT:
            raise InvalidOption(f"capacity must be at most {MAX_LIMIT:,}, or none for no limit")


class KeyRule(msgspec.Struct, frozen=True):
    """`host:*` is a prefix, anything else an exact name."""

    pattern: str
    limit: int

    def check(self) -> None:
        if self.limit < 0:
            raise InvalidOption(f"a key's limit must be 0 or more, not {self.limit}")
        if self.limit > MAX_LIMIT:
            raise InvalidOption(f"a key's limit must be at most {MAX_LIMIT:,}")
        if not self.pattern:
            raise InvalidOption("a key rule needs a name or a prefix such as host:*")
        if "*" in self.pattern[:-1]:
            raise InvalidOption(f"* may only stand at the end of a key rule: {self.pattern}")


class KeyRules:
    """Finds a key's limit: the exact rule, else the longest prefix, else 1."""

    def __init__(self, rules: Iterable[KeyRule] = ()) -> None:
        self._exact: dict[str, int] = {}
        prefixes: list[tuple[str, int]] = []
        for rule in rules:
            if rule.pattern.endswith("*"):
                prefixes.append((rule.pattern[:-1], rule.limit))
            else:
                self._exact[rule.pattern] = rule.limit
        self._prefixes = sorted(prefixes, key=lambda prefix: -len(prefix[0]))

    def limit(self, key: str) -> int:
        exact = self._exact.get(key)
        if exact is not None:
            return exact
        for prefix, limit in self._prefixes:
            if key.startswith(prefix):
                return limit
        return DEFAULT_KEY_LIMIT


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
