"""How often something may start: a token bucket, kept as one number."""

from __future__ import annotations

import msgspec

from taskyard.domain.clock import LONGEST, SECOND, Instant
from taskyard.domain.errors import InvalidOption

MAX_STARTS = 1_000_000


class Rate(msgspec.Struct, frozen=True):
    """`starts` in `seconds`, evenly; after a quiet time up to `burst` at once."""

    starts: int
    seconds: float = 1.0
    burst: int = 1

    def check(self) -> None:
        if not 1 <= self.starts <= MAX_STARTS:
            raise InvalidOption(f"a rate needs 1 to {MAX_STARTS:,} starts, not {self.starts}")
        if not 0 < self.seconds <= LONGEST:
            raise InvalidOption(f"a rate needs a time of more than 0 seconds, not {self.seconds:g}")
        if not 1 <= self.burst <= MAX_STARTS:
            raise InvalidOption(f"burst must be from 1 to {MAX_STARTS:,}, not {self.burst}")
        if self.interval < 1:
            raise InvalidOption("a rate of more than a million a second is no limit: leave it out")

    @property
    def said(self) -> str:
        """As the audit trail says it."""
        return f"{self.starts} in {self.seconds:g} s, burst {self.burst}"

    @property
    def interval(self) -> Instant:
        """Microseconds from one token to the next."""
        return round(self.seconds * SECOND / self.starts)

    # A bucket is the instant at which it will be full again: 0 for one nobody has used.

    def tokens(self, full_at: Instant, now: Instant) -> int:
        """How many may start now."""
        lacking = max(0, full_at - now)
        return max(0, (self.burst * self.interval - lacking) // self.interval)

    def take(self, full_at: Instant, now: Instant, count: int = 1) -> Instant:
        """The bucket after so many have started."""
        return max(full_at, now) + count * self.interval

    def opens_at(self, full_at: Instant, now: Instant) -> Instant:
        """When the bucket will hold one token more than now."""
        return full_at - (self.burst - self.tokens(full_at, now) - 1) * self.interval
