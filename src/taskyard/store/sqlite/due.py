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


def next_due(tx: Tx) -> int | None:
    found: int | None = tx.value(tx.sql("upkeep")["next_due"])
    return found


def any_late(tx: Tx) -> bool:
    return tx.value(tx.sql("upkeep")["any_late"], tx.now) is not None


def promote_these(tx: Tx, due: Sequence[int]) -> None:
    tx.run(tx.sql("upkeep")["promote_these"], tx.now, numbers(due))


def expire(tx: Tx, limit: int) -> int:
    late = tx.rows(list[tuple[int, tuple[str, ...]]], tx.sql("upkeep")["expired"], tx.now, limit)
    if late:
        expire_these(tx, [no for no, _ in late])
        keys.passed_over(tx, [names for _, names in late])
    return len(late)


def expire_these(tx: Tx, late: Sequence[int]) -> None:
    tx.run(tx.sql("upkeep")["expire"], numbers(late), tx.now)
    ids = tx.rows(list[str], tx.sql("upkeep")["ids"], numbers(late))
    tx.audit("system", [("expired", f"task:{task_id}", "deadline passed") for task_id in ids])
