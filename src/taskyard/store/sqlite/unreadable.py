"""Rows that something else has written into: one of them holds nobody else up.

A statement about several tasks answers one text for all of them (tx.py), so that one row which
cannot be read spoils it. Only then are the rows looked at one by one. One that cannot be read ends
as failed (undecodable), with which it leaves every index of what waits and runs, and the audit
trail tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import apsw
import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.errors import StoreCorrupt
from taskyard.domain.state import Reason, State
from taskyard.domain.task import OnFailure, TaskError
from taskyard.store.sqlite import keys
from taskyard.store.sqlite.tx import Tx, numbers

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, apsw.SQLError)
CHECKED_AT_ONCE = 500

Thing = TypeVar("Thing")
Row = TypeVar("Row")
Ending = tuple[str, State]


class _Whole(msgspec.Struct, array_like=True, frozen=True):
    """In the order of check in sql/unreadable.sql."""

    no: int
    id: str
    lane: int
    route: int
    priority: int
    rank: int
    seq: int
    state: State
    reason: Reason
    attempt: int
    charged: int
    max_charged: int
    losses: int
    lease: int | None
    request: int | None
    asked: str | None
    keys: tuple[str, ...]
    parked_on: str | None
    group: str | None
    dedup: str | None
    dedup_until: str | None
    dedup_held: int | None
    timeout: int
    deadline: Instant | None
    created_at: Instant
    run_at: Instant
    started_at: Instant | None
    rotation: str | None
    waits_for: int
    on_failure: OnFailure | None
    awaited: int | None


def sift(
    read: Callable[[Sequence[Thing]], Sequence[Row]], things: Sequence[Thing]
) -> tuple[list[Row], dict[Thing, Exception]]:
    """What can be read of these, and which cannot, by halves."""
    try:
        return list(read(things)), {}
    except UNREADABLE as error:
        if len(things) == 1:
            return [], {things[0]: error}
        if not things:
            raise
    half = len(things) // 2
    rows, bad = sift(read, things[:half])
    more_rows, more_bad = sift(read, things[half:])
    return rows + more_rows, bad | more_bad


def set_aside(tx: Tx, nos: Sequence[int]) -> list[Ending]:
    """End those of these tasks that cannot be read; answers the endings that others wait for."""
    bad: dict[int, Exception] = {}
    for at in range(0, len(nos), CHECKED_AT_ONCE):
        bad |= sift(lambda part: _check(tx, part), nos[at : at + CHECKED_AT_ONCE])[1]
    return _end(tx, bad) if bad else []


def _check(tx: Tx, nos: Sequence[int]) -> list[_Whole]:
    return tx.rows(list[_Whole], tx.sql("unreadable")["check"], numbers(nos))


def _end(tx: Tx, bad: dict[int, Exception]) -> list[Ending]:
    sql = tx.sql("unreadable")
    for no, error in bad.items():
        said = corrupt(error)
        tx.run(sql["log"], no, tx.now, said.type, said.message)
    tx.run(sql["set_aside"], numbers(bad), tx.now)
    tx.run(sql["release"], numbers(bad))
    ids = [name(tx, no) for no in bad]
    tx.audit("system", [("unreadable", f"task:{one}", "its row cannot be read") for one in ids])
    known, _ = sift(lambda part: _endings(tx, part), list(bad))
    return known + _wake_all(tx)


def _endings(tx: Tx, nos: Sequence[int]) -> list[Ending]:
    return tx.rows(list[Ending], tx.sql("unreadable")["endings"], numbers(nos))


def _wake_all(tx: Tx) -> list[Ending]:
    """Nobody knows which keys they carried: whoever waits for one that has room is looked at."""
    endings: list[Ending] = []
    try:
        waited = keys.all_waited(tx)
    except UNREADABLE:
        endings = set_aside(tx, tx.rows(list[int], tx.sql("unreadable")["parked"]))
        waited = keys.all_waited(tx)
    keys.wake(tx, Counter({key: free for key, free in keys.room(tx, waited).items() if free > 0}))
    return endings


def name(tx: Tx, no: int) -> str:
    """The id of a task; where that cannot be read, its number."""
    found = tx.value(tx.sql("unreadable")["id"], no)
    try:
        return str(found, "utf-8")
    except (UnicodeDecodeError, TypeError):
        return f"#{no}"


def corrupt(error: Exception) -> TaskError:
    """What a task failed of whose row cannot be read."""
    return TaskError("StoreCorrupt", f"what is stored of this task cannot be read: {error}")


def told(task: str, error: Exception) -> StoreCorrupt:
    """For whoever asks for a task that cannot be read."""
    return StoreCorrupt(
        f"what is stored of task {task} cannot be read ({error}); restore the file from a backup"
    )
