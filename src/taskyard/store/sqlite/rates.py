"""Token buckets: what has been taken of a rate, and when the next token comes (domain/rate.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.rate import Rate
from taskyard.store.sqlite.tx import Tx, to_json


class _Bucket(msgspec.Struct, array_like=True):
    full_at: Instant = 0
    opens_at: Instant | None = None


def tokens(tx: Tx, rates: Mapping[str, Rate]) -> dict[str, int]:
    """How many may start now that hold each of these keys."""
    known = _buckets(tx, rates)
    return {
        key: rate.tokens(known[key].full_at if key in known else 0, tx.now)
        for key, rate in rates.items()
    }


def opens_at(tx: Tx, rates: Mapping[str, Rate]) -> dict[str, Instant]:
    """When those of these keys have a token again that have none now."""
    return {
        key: rates[key].opens_at(bucket.full_at, tx.now)
        for key, bucket in _buckets(tx, rates).items()
        if rates[key].tokens(bucket.full_at, tx.now) <= 0
    }


def _buckets(tx: Tx, keys: Iterable[str]) -> dict[str, _Bucket]:
    return tx.rows(dict[str, _Bucket], tx.sql("rates")["buckets"], to_json(list(keys)))


def take(tx: Tx, rates: Mapping[str, Rate], taken: Counter[str], waited: Collection[str]) -> None:
    """Take so many tokens of each of these keys, and note when someone is to be told of the next.

    A token that came meanwhile, and is still there, is one that nobody has been told of: that
    moment stays.
    """
    known = _buckets(tx, rates)
    rows: list[tuple[str, Instant, Instant | None]] = []
    for key, rate in rates.items():
        if key not in known and not taken[key]:
            continue
        bucket = known.get(key, _Bucket())
        full_at = rate.take(bucket.full_at, tx.now, taken[key]) if taken[key] else bucket.full_at
        opens = _opens_at(tx, rate, full_at, waited=key in waited)
        untold = bucket.opens_at is not None and bucket.opens_at <= tx.now
        if untold and rate.tokens(full_at, tx.now) > 0:
            opens = bucket.opens_at
        rows.append((key, full_at, opens))
    tx.run(tx.sql("rates")["put"], to_json(rows))


def tell_next(tx: Tx, rates: Mapping[str, Rate], waited: Collection[str]) -> None:
    """Those who wait for these keys know of the tokens that are there; note when the next comes."""
    rows = [
        (key, bucket.full_at, _opens_at(tx, rates[key], bucket.full_at, waited=key in waited))
        for key, bucket in _buckets(tx, rates).items()
    ]
    tx.run(tx.sql("rates")["put"], to_json(rows))


def _opens_at(tx: Tx, rate: Rate, full_at: Instant, *, waited: bool) -> Instant | None:
    """When someone is to be told: if none is left, or a task is parked on the key."""
    left = rate.tokens(full_at, tx.now)
    if left <= 0 or (waited and left < rate.burst):
        return rate.opens_at(full_at, tx.now)
    return None


def due(tx: Tx, limit: int) -> list[str]:
    """The keys that were to have a token by now."""
    return tx.rows(list[str], tx.sql("rates")["due"], tx.now, limit)


def all_keys(tx: Tx) -> list[str]:
    """The keys that tokens were taken of."""
    return tx.rows(list[str], tx.sql("rates")["keys"])


def tell_nobody(tx: Tx, keys: Collection[str]) -> None:
    """These have no rate any more. What was taken stays taken, should they have one again."""
    tx.run(tx.sql("rates")["tell_nobody"], to_json(list(keys)))


def forget_full(tx: Tx, limit: int) -> None:
    """A bucket that is full is as one that nobody has used."""
    tx.run(tx.sql("rates")["forget_full"], tx.now, limit)


def take_over(tx: Tx, buckets: Mapping[str, Instant], rates: Mapping[str, Rate]) -> None:
    """These keys come from another store, with their rates; nobody waits for them yet."""
    if buckets:
        rows = [(key, full_at, None) for key, full_at in buckets.items()]
        tx.run(tx.sql("rates")["put"], to_json(rows))
        tell_next(tx, rates, ())


def take_over_lane(tx: Tx, lane: int, full_at: Instant) -> None:
    """The same of a lane."""
    for rate in tx.rows(list[Rate], tx.sql("rates")["lane_rate"], lane):
        _set_lane(tx, lane, rate, full_at)


def take_of_lane(tx: Tx, lane: int, rate: Rate, full_at: Instant | None, count: int) -> None:
    _set_lane(tx, lane, rate, rate.take(full_at or 0, tx.now, count))


def set_of_lane(tx: Tx, lane: int, rate: Rate | None) -> None:
    """Give a lane another rate; what was taken stays taken."""
    sql = tx.sql("rates")
    tx.run(sql["set_lane_rate"], lane, None if rate is None else to_json(rate))
    full_at = tx.value(sql["lane_full"], lane)
    if rate is not None and full_at is not None:
        _set_lane(tx, lane, rate, full_at)


def _set_lane(tx: Tx, lane: int, rate: Rate, full_at: Instant) -> None:
    opens = _opens_at(tx, rate, full_at, waited=False)
    tx.run(tx.sql("rates")["put_lane"], lane, full_at, opens)
