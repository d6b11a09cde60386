"""How kinds fare, by the hour."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.clock import Instant
from taskyard.domain.statistics import HOUR, Count
from taskyard.store.postgres.connection import Database

_TALLY = "SELECT taskyard.tally($1, $2, $3, $4, $5, $6, $7)"


async def tally(database: Database, clock: int, counts: Sequence[Count]) -> None:
    if counts:
        columns = [
            [getattr(count, name) for count in counts]
            for name in ("kind", "lane", "what", "bucket", "n")
        ]
        await database.value(_TALLY, clock, HOUR, *columns)


async def tallied(database: Database, since: Instant) -> list[Count]:
    return await database.read(list[Count], "tallied", since - since % HOUR)
