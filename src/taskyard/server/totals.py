"""What workers have added up since this server began to look.

The store keeps it by the hour. Hours that are over are read once and remembered, so that a look
costs the same after a month as in the first hour.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.statistics import HOUR, Count
from taskyard.store.port import Store

SETTLED: Instant = 60 * SECOND  # so long after its end, nobody adds to an hour any more

CountKey = tuple[str, str, str, int]  # kind, lane, what, bucket


class Totals:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: Counter[CountKey] = Counter()  # of the hours before `_base`
        self._base: Instant | None = None
        self._looking = asyncio.Lock()

    async def look(self, now: Instant) -> Counter[CountKey]:
        """All of it, from the hour of the first look on."""
        async with self._looking:
            if self._base is None:
                self._base = now // HOUR * HOUR
            found = await self._since(self._base)
            total = self._before + found
            settled = (now - SETTLED) // HOUR * HOUR
            if settled > self._base:
                later = await self._since(settled)
                if await self._since(self._base) == found:  # else `later` may know more
                    self._before = total - later
                    self._base = settled
            return total

    async def _since(self, hour: Instant) -> Counter[CountKey]:
        found: Counter[CountKey] = Counter()
        for count in await self._store.tallied(hour):
            found[count.kind, count.lane, count.what, count.bucket] += count.n
        return found


def counts_of(totals: Counter[CountKey]) -> list[Count]:
    return [Count(kind, lane, what, n, bucket) for (kind, lane, what, bucket), n in totals.items()]
