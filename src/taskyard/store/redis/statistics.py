"""Figures by the hour, as lua/parts/tallies.lua keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from taskyard.domain.clock import Instant
from taskyard.domain.statistics import Count

PAGE = 5000  # names at a time: some milliseconds of the server

Ask = Callable[..., Awaitable[Any]]


def rows(counts: Sequence[Count]) -> tuple[list[str], list[int]]:
    """Names, and how many of each."""
    sums: Counter[str] = Counter()
    for count in counts:
        sums["\0".join((count.kind, count.lane, count.what, str(count.bucket)))] += count.n
    return list(sums), list(sums.values())


async def tallied(ask: Ask, since: Instant) -> list[Count]:
    sums: Counter[bytes] = Counter()
    last = ""
    while True:
        names, counts = await ask("tallied", since, last, PAGE)
        for name, n in zip(names, counts, strict=True):
            _, _, without_hour = name.partition(b"\0")
            sums[without_hour] += int(n)
        if len(names) < PAGE:
            return [_count(name, n) for name, n in sorted(sums.items())]
        last = names[-1].decode()


def _count(name: bytes, n: int) -> Count:
    kind, lane, what, bucket = name.decode().split("\0")
    return Count(kind, lane, what, n, int(bucket))
