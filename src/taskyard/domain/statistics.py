"""How kinds fare: counts and times, by the hour, in numbers that are only ever added to.

Times fall into classes a fifth apart, so a percentile is right to within a tenth; sums are exact.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from taskyard.domain.clock import Instant

HOUR: Instant = 3_600_000_000
STEP = 1.2
SMALLEST = 0.000_1  # seconds
_LOG_STEP = math.log(STEP)

RUN, WAIT = "run", "wait"
RUN_SUM, WAIT_SUM = "run_us", "wait_us"


class Count(msgspec.Struct, frozen=True):
    """`n` more of something. `what` is RUN or WAIT with a class of times, one of the sums (in
    microseconds), or how an attempt ended: completed, failed, cancelled, retried, …"""

    kind: str
    lane: str
    what: str
    n: int
    bucket: int = 0


_BOUNDS = [SMALLEST * STEP**bucket for bucket in range(100)]  # to two hours


def bucket_of(seconds: float) -> int:
    """The class of times this one is in."""
    if seconds <= _BOUNDS[-1]:
        return bisect_left(_BOUNDS, seconds)
    return math.ceil(math.log(seconds / SMALLEST) / _LOG_STEP)


def classes(times: Iterable[float]) -> dict[int, int]:
    """How many of these times are in each class.

    Sorted, so that each class is looked for once and not each time.
    """
    found: dict[int, int] = {}
    ordered = sorted(times)
    at = 0
    while at < len(ordered):
        bucket = bucket_of(ordered[at])
        behind = _behind(ordered, bucket, at)
        found[bucket] = found.get(bucket, 0) + behind - at
        at = behind
    return found


def _behind(ordered: Sequence[float], bucket: int, at: int) -> int:
    """Where the next class begins; of the longest times each is looked at by itself."""
    if bucket >= len(_BOUNDS):
        return at + 1
    # A time just above the last bound may be rounded down into its class.
    return max(at + 1, bisect_right(ordered, _BOUNDS[bucket], at))


def time_of(bucket: int) -> float:
    """A time in the middle of this class."""
    return SMALLEST * STEP ** (bucket - 0.5) if bucket else SMALLEST


class Times(msgspec.Struct, frozen=True):
    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


class KindStatistics(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    ended: dict[str, int]  # how attempts ended -> how many
    run: Times
    wait: Times

    @property
    def attempts(self) -> int:
        return sum(self.ended.values())

    @property
    def success(self) -> float | None:
        """The share of tasks that ended well among those that ended; None: none has."""
        well = self.ended.get("completed", 0)
        ended = well + self.ended.get("failed", 0)
        return well / ended if ended else None


def by_kind(counts: Iterable[Count]) -> list[KindStatistics]:
    """The figures of each kind, by name."""
    found: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for count in counts:
        buckets = found[count.kind][count.what]
        buckets[count.bucket] = buckets.get(count.bucket, 0) + count.n
    return [_figures(kind, found[kind]) for kind in sorted(found)]


def _figures(kind: str, whats: dict[str, dict[int, int]]) -> KindStatistics:
    times = {RUN, WAIT, RUN_SUM, WAIT_SUM}
    return KindStatistics(
        kind=kind,
        ended={what: sum(n.values()) for what, n in whats.items() if what not in times},
        run=_times(whats.get(RUN, {}), whats.get(RUN_SUM, {})),
        wait=_times(whats.get(WAIT, {}), whats.get(WAIT_SUM, {})),
    )


def _times(buckets: dict[int, int], sums: dict[int, int]) -> Times:
    count = sum(buckets.values())
    if not count:
        return Times()
    mean = sum(sums.values()) / 1_000_000 / count
    return Times(count, mean, *(_percentile(buckets, count, share) for share in (0.5, 0.95, 0.99)))


def _percentile(buckets: dict[int, int], count: int, share: float) -> float:
    wanted, seen = share * count, 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return time_of(bucket)
    raise AssertionError("a share is at most 1")
