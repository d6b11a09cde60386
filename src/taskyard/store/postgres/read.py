"""Looks at tasks."""

from __future__ import annotations

import msgspec

from taskyard.domain.errors import InvalidOption, NotFound
from taskyard.domain.explain import FAR_BACK, Explanation, Facts, explain
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.postgres.connection import Database

MAX_PAGE = 1000


def _with_error(task: Task) -> Task:
    """The error of a task that failed is that of its last attempt."""
    if task.state in (State.FAILED, State.PENDING) and task.failures:
        return msgspec.structs.replace(task, error=task.failures[-1].error)
    return task


async def get(database: Database, task_id: str) -> Task | None:
    tasks = await database.read(list[Task], "get", task_id)
    return _with_error(tasks[0]) if tasks else None


async def find(database: Database, query: TaskQuery) -> list[Task]:
    if not 1 <= query.limit <= MAX_PAGE:
        raise InvalidOption(f"limit must be from 1 to {MAX_PAGE}, not {query.limit}")
    tasks = await database.read(
        list[Task],
        "find",
        query.state,
        query.kind,
        query.lane,
        query.key,
        query.after,
        query.limit,
    )
    return [_with_error(task) for task in tasks]


async def explain_task(database: Database, clock: int, task_id: str) -> Explanation:
    # The kind of the answer is a union, which mypy does not take for a type.
    kind: type[Facts | None] = Facts | None  # type: ignore[assignment]
    facts = await database.read(kind, "facts", clock, task_id, FAR_BACK)
    if facts is None:
        raise NotFound(f"there is no task {task_id}")
    return explain(facts)
