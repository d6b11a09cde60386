"""Looks at tasks."""

from __future__ import annotations

import msgspec

from taskyard.domain.errors import NotFound
from taskyard.domain.explain import FAR_BACK, Explanation, Facts, explain
from taskyard.domain.state import State
from taskyard.domain.task import SHORT_PAYLOAD, Page, Task, TaskLine, TaskQuery
from taskyard.store import paging
from taskyard.store.port import CLOCK_SLACK
from taskyard.store.postgres.connection import Database

MAX_LOOKS = 50_000  # in one search: some tens of milliseconds at most, unless others are busy


class _Tasks(msgspec.Struct, frozen=True):
    tasks: list[Task]
    go_on: int | None


class _Lines(msgspec.Struct, frozen=True):
    tasks: list[TaskLine]
    go_on: int | None


def _with_error(task: Task) -> Task:
    """The error of a task that failed is that of its last attempt."""
    if task.state in (State.FAILED, State.PENDING) and task.failures:
        return msgspec.structs.replace(task, error=task.failures[-1].error)
    return task


async def get(database: Database, task_id: str) -> Task | None:
    tasks = await database.read(list[Task], "get", task_id)
    return _with_error(tasks[0]) if tasks else None


async def find(database: Database, query: TaskQuery) -> list[Task]:
    async def search(part: TaskQuery) -> paging.Found:
        found = await database.read(_Tasks, "find", *_asked(part))
        return [_with_error(task) for task in found.tasks], found.go_on

    return await paging.full(query, search)


async def page(database: Database, query: TaskQuery) -> Page:
    query.check()
    found = await database.read(_Lines, "page", *_asked(query), SHORT_PAYLOAD)
    return paging.page(query, found.tasks, found.go_on)


def _asked(query: TaskQuery) -> tuple[object, ...]:
    return (
        query.state,
        query.kind,
        query.lane,
        query.key,
        query.since,
        query.until,
        CLOCK_SLACK,
        query.after,
        query.limit,
        MAX_LOOKS,
    )


async def explain_task(database: Database, clock: int, task_id: str) -> Explanation:
    # The kind of the answer is a union, which mypy does not take for a type.
    kind: type[Facts | None] = Facts | None  # type: ignore[assignment]
    facts = await database.read(kind, "facts", clock, task_id, FAR_BACK)
    if facts is None:
        raise NotFound(f"there is no task {task_id}")
    return explain(facts)
