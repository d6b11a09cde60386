"""Time has come, or has run out: promote and expire."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.store.port import Promoted
from taskyard.store.sqlite import keys
from taskyard.store.sqlite.tx import Tx, numbers


def promote(tx: Tx, limit: int) -> Promoted:
    sql = tx.sql("upkeep")
    count = tx.run(sql["promote"], tx.now, limit)
    return Promoted(count, tx.value(sql["next_due"]))


def expire(tx: Tx, limit: int) -> int:
    late = tx.rows(list[tuple[int, tuple[str, ...]]], tx.sql("upkeep")["expired"], tx.now, limit)
    if late:
        expire_these(tx, [no for no, _ in late])
        keys.passed_over(tx, [names for _, names in late])
    return len(late)


def expire_these(tx: Tx, late: Sequence[int]) -> None:
    tx.run(tx.sql("upkeep")["expire"], numbers(late), tx.now)
    tx.audit("system", [("expired", f"task:no:{no}", "deadline passed") for no in late])
