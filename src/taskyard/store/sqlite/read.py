"""Looks at tasks and lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from taskyard.domain.lane import Audited
from taskyard.domain.state import State
from taskyard.domain.task import Page, Task, TaskQuery
from taskyard.store import paging
from taskyard.store.port import Ending
from taskyard.store.sqlite import find
from taskyard.store.sqlite.tx import Tx, numbers, to_json
from taskyard.store.sqlite.unreadable import corrupt, name, sift, told


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


def list_tasks(tx: Tx, query: TaskQuery) -> tuple[list[Task], int | None]:
    """Whole tasks, as far as one search finds them."""
    nos, go_on = find.search(tx, query)
    return _tasks(tx, nos), go_on


def page(tx: Tx, query: TaskQuery) -> Page:
    query.check()
    nos, go_on = find.search(tx, query)
    return paging.page(query, find.lines(tx, nos), go_on)


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
