"""Tasks that wait for others to end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import OnFailure
from taskyard.store.sqlite import order, unreadable
from taskyard.store.sqlite.tx import Tx, numbers, to_json
from taskyard.store.sqlite.unreadable import UNREADABLE, Ending

Edge = tuple[int, int, str, int]
"""The task, the place among those it depends on, the other's id, and 1 if that has not ended."""


class _Dependent(msgspec.Struct, array_like=True):
    """One that waits, and the task whose end it was waiting for."""

    no: int
    id: str
    state: State
    run_at: Instant
    waits_for: int
    on_failure: OnFailure | None
    awaited: bool
    ended: str


def is_bad(state: State) -> bool:
    return state in TERMINAL and state is not State.COMPLETED


def save(tx: Tx, edges: Sequence[Edge]) -> None:
    if edges:
        sql = tx.sql("dependencies")
        tx.run(sql["save"], to_json(edges))
        tx.run(sql["await"], to_json(sorted({edge[2] for edge in edges})))


def ended(tx: Tx, endings: Sequence[Ending]) -> None:
    """Let those that waited for these go on, or cancel them, and so on down the line."""
    while endings:
        endings = _ended(tx, dict(endings))


def set_aside(tx: Tx, nos: Sequence[int]) -> bool:
    """End those of these tasks that cannot be read; says whether there was one."""
    before = tx.db.total_changes()
    ended(tx, unreadable.set_aside(tx, nos))
    return tx.db.total_changes() != before


def _ended(tx: Tx, states: dict[str, State]) -> list[Ending]:
    """Answers the dependents that ended too and have dependents of their own."""
    sql = tx.sql("dependencies")
    ids = to_json(list(states))
    found, endings = _dependents(tx, ids)
    tx.run(sql["meet"], ids)
    left: dict[int, _Dependent] = {}
    cancelled: dict[int, tuple[_Dependent, str]] = {}
    for one in found:
        if is_bad(states[one.ended]) and one.on_failure is not OnFailure.RUN:
            cancelled.setdefault(one.no, (one, f"cancelled: {one.ended} {states[one.ended]}"))
        else:
            left.setdefault(one.no, one).waits_for -= 1
    going = [one for one in left.values() if one.no not in cancelled]
    if going:
        endings += _go_on(tx, going)
    if cancelled:
        tx.run(sql["cancel"], numbers(sorted(cancelled)), tx.now)
        tx.audit(
            "system",
            [("dependency", f"task:{one.id}", detail) for one, detail in cancelled.values()],
        )
    return endings + [(one.id, State.CANCELLED) for one, _ in cancelled.values() if one.awaited]


def _dependents(tx: Tx, ids: str) -> tuple[list[_Dependent], list[Ending]]:
    """Who waits for the end of these; who cannot be read waits no longer."""
    read = tx.sql("dependencies")["dependents"]
    try:
        return tx.rows(list[_Dependent], read, ids), []
    except UNREADABLE:
        nos = tx.rows(list[int], tx.sql("unreadable")["dependents"], ids)
        endings = unreadable.set_aside(tx, nos)
        return tx.rows(list[_Dependent], read, ids), endings


def _go_on(tx: Tx, dependents: Sequence[_Dependent]) -> list[Ending]:
    sql = tx.sql("dependencies")
    tx.run(sql["wait_for"], to_json([(one.no, one.waits_for) for one in dependents]))
    ready = [
        one.no
        for one in dependents
        if one.waits_for == 0 and one.state is State.PENDING and one.run_at <= tx.now
    ]
    bad = order.queue(tx, ready, Reason.DEPENDENCY, park=True) if ready else {}
    return unreadable.set_aside(tx, list(bad))


def unmet(tx: Tx, no: int, most: int) -> list[str]:
    """Ids of those it depends on that have not ended, the first of them."""
    return tx.rows(list[str], tx.sql("dependencies")["unmet"], no, most)
