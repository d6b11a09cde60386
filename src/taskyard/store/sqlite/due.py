"""Time has come, or has run out: promote and expire."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.state import Reason, State
from taskyard.store.port import Promoted
from taskyard.store.sqlite import dependencies, keys, opening, order
from taskyard.store.sqlite.tx import Tx, numbers
from taskyard.store.sqlite.unreadable import UNREADABLE, name, sift

_Late = tuple[int, tuple[str, ...]]  # its number and its keys


def promote(tx: Tx, limit: int) -> Promoted:
    tasks = tx.rows(list[int], tx.sql("upkeep")["due"], tx.now, limit)
    if tasks:
        dependencies.set_aside(tx, list(order.queue(tx, tasks, Reason.DUE)))
    return Promoted(len(tasks) + opening.open_due(tx, limit), next_due(tx))


def next_due(tx: Tx) -> int | None:
    found: int | None = tx.value(tx.sql("upkeep")["next_due"])
    return found


def any_late(tx: Tx) -> bool:
    return tx.value(tx.sql("upkeep")["any_late"], tx.now) is not None


def expire(tx: Tx, limit: int) -> int:
    late = _late(tx, limit)
    if late:
        expire_these(tx, [no for no, _ in late])
        keys.passed_over(tx, [names for _, names in late])
    return len(late)


def _late(tx: Tx, limit: int) -> list[_Late]:
    read = tx.sql("upkeep")["expired"]
    try:
        return tx.rows(list[_Late], read, tx.now, limit)
    except UNREADABLE:
        dependencies.set_aside(tx, tx.rows(list[int], tx.sql("unreadable")["late"], tx.now))
        return tx.rows(list[_Late], read, tx.now, limit)


def expire_these(tx: Tx, late: Sequence[int]) -> bool:
    """Says whether others depended on one of them."""
    sql = tx.sql("upkeep")
    tx.run(sql["expire"], numbers(late), tx.now)
    tasks, nameless = sift(
        lambda part: tx.rows(list[tuple[str, bool]], sql["ids"], numbers(part)), late
    )
    tasks += [(name(tx, no), False) for no in nameless]
    tx.audit("system", [("expired", f"task:{task_id}", "deadline passed") for task_id, _ in tasks])
    awaited = [(task_id, State.FAILED) for task_id, awaited in tasks if awaited]
    dependencies.ended(tx, awaited)
    return bool(awaited)
