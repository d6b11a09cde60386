"""Token buckets: what has been taken of a rate, and when the next token comes (domain/rate.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from taskyard.domain.clock import Instant
from taskyard.domain.rate import Rate
from taskyard.store.sqlite.tx import Tx, to_json


def tokens(tx: Tx, rates: Mapping[str, Rate]) -> dict[str, int]:
    """How many may start now that hold each of these keys."""
    full = _full(tx, rates)
    return {key: rate.tokens(full.get(key, 0), tx.now) for key, rate in rates.items()}


def opens_at(tx: Tx, rates: Mapping[str, Rate]) -> dict[str, Instant]:
    """When those of these keys have a token again that have none now."""
    full = _full(tx, rates)
    return {
        key: rate.opens_at(full[key], tx.now)
        for key, rate in rates.items()
        if key in full and rate.tokens(full[key], tx.now) <= 0
    }


def _full(tx: Tx, keys: Iterable[str]) -> dict[str, Instant]:
    return tx.rows(dict[str, Instant], tx.sql("rates")["full"], to_json(list(keys)))


def settle(tx: Tx, rates: Mapping[str, Rate], taken: Counter[str], waited: Collection[str]) -> None:
    """Take so many tokens of each of these keys, and note when someone is to be told of the next.

    Someone is, if none is left, or if a task is parked on the key.
    """
    full = _full(tx, rates)
    rows: list[tuple[str, Instant, Instant | None]] = []
    for key, rate in rates.items():
        full_at = full.get(key, 0)
        if taken[key]:
            full_at = rate.take(full_at, tx.now, taken[key])
        elif key not in full:
            continue
        left = rate.tokens(full_at, tx.now)
        told = left <= 0 or (key in waited and left < rate.burst)
        rows.append((key, full_at, rate.opens_at(full_at, tx.now) if told else None))
    tx.run(tx.sql("rates")["put"], to_json(rows))


def due(tx: Tx, limit: int) -> list[str]:
    """The keys that were to have a token by now."""
    return tx.rows(list[str], tx.sql("rates")["due"], tx.now, limit)


def all_keys(tx: Tx) -> list[str]:
    """The keys that tokens were taken of."""
    return tx.rows(list[str], tx.sql("rates")["keys"])


def forget(tx: Tx, keys: Collection[str]) -> None:
    """These have no rate any more."""
    tx.run(tx.sql("rates")["forget"], to_json(list(keys)))


def forget_full(tx: Tx, limit: int) -> None:
    """A bucket that is full is as one that nobody has used."""
    tx.run(tx.sql("rates")["forget_full"], tx.now, limit)


def take_of_lane(tx: Tx, lane: int, rate: Rate, full_at: Instant | None, count: int) -> None:
    full = rate.take(full_at or 0, tx.now, count)
    _set_lane(tx, lane, rate, full)


def set_of_lane(tx: Tx, lane: int, rate: Rate | None) -> None:
    """Give a lane another rate; what was taken stays taken."""
    sql = tx.sql("rates")
    tx.run(sql["set_lane_rate"], lane, None if rate is None else to_json(rate))
    full_at = tx.value(sql["lane_full"], lane)
    if rate is not None and full_at is not None:
        _set_lane(tx, lane, rate, full_at)


def _set_lane(tx: Tx, lane: int, rate: Rate, full_at: Instant) -> None:
    none_left = rate.tokens(full_at, tx.now) <= 0
    opens = rate.opens_at(full_at, tx.now) if none_left else None
    tx.run(tx.sql("rates")["put_lane"], lane, full_at, opens)
