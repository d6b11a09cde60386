"""Statistics: one number for each hour, kind, lane and thing counted, which is added to."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.clock import Instant
from taskyard.domain.statistics import HOUR, Count
from taskyard.store.sqlite.tx import Tx, to_json


class _Count(Count, array_like=True, frozen=True):
    pass


def tally(tx: Tx, counts: Sequence[Count]) -> None:
    rows = [(count.kind, count.lane, count.what, count.n, count.bucket) for count in counts]
    if rows:
        tx.run(tx.sql("figures")["tally"], to_json(rows), _hour(tx.now))


def tallied(tx: Tx, since: Instant) -> list[Count]:
    rows = tx.rows(list[_Count], tx.sql("figures")["tallied"], _hour(since))
    return [Count(row.kind, row.lane, row.what, row.n, row.bucket) for row in rows]


def forget(tx: Tx, age: Instant) -> None:
    """The hours that were over that long ago."""
    tx.run(tx.sql("figures")["forget"], tx.now - age - HOUR)


def _hour(moment: Instant) -> Instant:
    return moment // HOUR * HOUR
