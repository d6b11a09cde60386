"""When a failed task is tried again."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from taskyard.domain.clock import LONGEST, bounded
from taskyard.domain.errors import InvalidOption

Spacing = Literal["none", "fixed", "exponential"]


class RetryPolicy(msgspec.Struct, frozen=True):
    """`retries=3` means at most four charged runs."""

    retries: int = 0
    spacing: Spacing = "none"
    base: float = 60.0
    cap: float = 300.0
    jitter: bool = False

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidOption(f"retries must be 0 or more, not {self.retries}")
        if self.base < 0 or self.cap < 0:
            raise InvalidOption("a retry delay cannot be negative")

    @property
    def max_charged(self) -> int:
        return self.retries + 1

    def delay(self, failures: int, *, asked: float | None = None) -> float:
        """Seconds to wait after the `failures`-th failure (1 is the first).

        A delay the other side asked for (Retry-After) is honoured as it is.
        """
        if asked is not None:
            return bounded(asked)
        return bounded(self._spaced(failures))

    def _spaced(self, failures: int) -> float:
        match self.spacing:
            case "none":
                return 0.0
            case "fixed":
                return self.base
            case "exponential":
                # 2**1024 overflows a float; any sane cap is reached long before.
                delay = min(self.base * 2.0 ** min(failures - 1, 64), self.cap)
                return random.uniform(0.0, delay) if self.jitter else delay


class Retry(Exception):
    """Raised by a handler: try this task again, after `after` seconds if given.

    Also where retry policies are made: `Retry.exponential(3, base=60, cap=300)`.
    """

    def __init__(self, message: str = "retry asked for", *, after: float | None = None) -> None:
        super().__init__(message)
        if after is not None and not isinstance(after, int | float):
            raise InvalidOption(f"Retry takes `after` in seconds, not {after!r}")
        if after is not None and not 0 <= after <= LONGEST:
            raise InvalidOption(
                f"Retry needs `after` of 0 seconds or more and at most 100 years, not {after:g}"
            )
        self.after = after

    @staticmethod
    def never() -> RetryPolicy:
        """The first failure is the last."""
        return RetryPolicy()

    @staticmethod
    def fixed(retries: int, *, delay: float) -> RetryPolicy:
        """The same `delay` before each retry, in seconds."""
        return RetryPolicy(retries=retries, spacing="fixed", base=delay, cap=delay)

    @staticmethod
    def exponential(
        retries: int, *, base: float = 60.0, cap: float = 300.0, jitter: bool = False
    ) -> RetryPolicy:
        """`base` seconds before the first retry, then twice as long each time, up to `cap`.

        `jitter`: a random time between 0 and that, so that not all come back at once.
        """
        return RetryPolicy(
            retries=retries, spacing="exponential", base=base, cap=cap, jitter=jitter
        )
