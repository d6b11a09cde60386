"""Looks at tasks and lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import Audited
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Ending
from taskyard.store.sqlite.tx import Tx, numbers, to_json
from taskyard.store.sqlite.unreadable import corrupt, name, sift, told

MAX_PAGE = 1000


class _Audited(Audited, array_like=True, frozen=True):
    pass


def get(tx: Tx, task_id: str) -> Task | None:
    no = tx.value(tx.sql("read")["number"], task_id)
    return None if no is None else _tasks(tx, [no])[0]


def _tasks(tx: Tx, nos: Sequence[int]) -> list[Task]:
    tasks, bad = sift(lambda part: tx.rows(list[Task], tx.sql("read")["tasks"], numbers(part)), nos)
    for no, error in bad.items():
        raise told(name(tx, no), error) from error
    return [_with_error(task) for task in tasks]


def _with_error(task: Task) -> Task:
    """The error of a task that failed is that of its last attempt."""
    if task.state in (State.FAILED, State.PENDING) and task.failures:
        return msgspec.structs.replace(task, error=task.failures[-1].error)
    return task


def list_tasks(tx: Tx, query: TaskQuery) -> list[Task]:
    if not 1 <= query.limit <= MAX_PAGE:
        raise InvalidOption(f"limit must be from 1 to {MAX_PAGE}, not {query.limit}")
    sql = tx.sql("read")
    filters = [
        ("by_state", query.state),
        ("by_kind", query.kind),
        ("by_lane", query.lane),
        ("by_key", query.key),
        ("by_place", query.after),
    ]
    used = [(sql[name], value) for name, value in filters if value is not None]
    conditions = [text for text, _ in used]
    if query.state in TERMINAL:
        conditions.append(sql["by_ended"])  # lets the index of ended tasks be used
    statement = sql["filtered"].format(conditions=" ".join(conditions), limit=query.limit)
    return _tasks(tx, tx.rows(list[int], statement, *(value for _, value in used)))


def endings(tx: Tx, task_ids: Sequence[str]) -> list[Ending]:
    """Those of these tasks that have ended; whoever waits for one that cannot be read is told."""
    found, bad = sift(
        lambda part: tx.rows(list[Ending], tx.sql("read")["endings"], to_json(part)), task_ids
    )
    return found + [Ending(one, State.FAILED, None, corrupt(error)) for one, error in bad.items()]


def counts(tx: Tx) -> Mapping[State, int]:
    found = tx.rows(dict[str, int], tx.sql("read")["counts"])
    return {state: found.get(state, 0) for state in State}


def audit(tx: Tx, limit: int, before: int | None) -> list[Audited]:
    rows = tx.rows(list[_Audited], tx.sql("upkeep")["read_audit"], before, limit)
    return [Audited(*msgspec.structs.astuple(row)) for row in rows]
