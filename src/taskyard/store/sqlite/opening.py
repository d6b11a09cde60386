"""What a moment opens by itself: the rates of keys and lanes, and what was paused until then."""

from __future__ import annotations

from collections import Counter

from taskyard.store.sqlite import keys, rates
from taskyard.store.sqlite.tx import Tx


def open_due(tx: Tx, limit: int) -> int:
    """Everything whose moment has come; says how many things that were."""
    lanes = tx.run(tx.sql("rates")["lanes_due"], tx.now)
    return _open_keys(tx, limit) + lanes + _resume(tx)


def _open_keys(tx: Tx, limit: int) -> int:
    names = rates.due(tx, limit)
    if names:
        rules = keys.rules(tx)
        rated = {key: rate for key in names if (rate := rules.rate(key)) is not None}
        keys.wake(tx, Counter(rates.tokens(tx, rated)))
        rates.tell_next(tx, rated, keys.waited(tx, rated))
    rates.forget_full(tx, limit)
    return len(names)


def _resume(tx: Tx) -> int:
    """Lanes and a yard that were paused until now."""
    sql = tx.sql("pausing")
    names = tx.rows(list[str], sql["lanes_over"], tx.now)
    if names:
        tx.run(sql["resume_lanes"], tx.now)
    over = [f"lane:{name}" for name in names]
    if tx.value(sql["yard_over"], tx.now):
        tx.run(sql["pause_yard"], 0, None)
        over.append("yard")
    tx.audit("system", [("resume", subject, "its time was over") for subject in over])
    return len(over)
