"""Looks at tasks and at what was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from taskyard.domain.errors import NotFound
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited
from taskyard.domain.state import State
from taskyard.domain.task import SHORT_PAYLOAD, Page, Task, TaskQuery
from taskyard.store import paging
from taskyard.store.port import CLOCK_SLACK, Ending
from taskyard.store.redis.explain import FAR_BACK, UNMET, explain, facts
from taskyard.store.redis.rows import last_error, lines, whole_tasks

__all__ = ["FAR_BACK", "UNMET", "audit", "endings", "explanation", "find", "page", "whole_tasks"]

Ask = Callable[..., Awaitable[Any]]


async def find(ask: Ask, query: TaskQuery) -> list[Task]:
    async def search(part: TaskQuery) -> paging.Found:
        go_on, tasks = await ask("find", *asked(part))
        return list(whole_tasks(tasks)), _number(go_on)

    return await paging.full(query, search)


async def page(ask: Ask, query: TaskQuery) -> Page:
    query.check()
    go_on, rows = await ask("page", *asked(query), SHORT_PAYLOAD)
    return paging.page(query, list(lines(rows)), _number(go_on))


def asked(query: TaskQuery) -> tuple[object, ...]:
    """In the order of search in lua/parts/searching.lua."""
    return (
        list(State) if query.state is None else [query.state],
        query.lane,
        query.kind,
        query.key,
        query.since,
        query.until,
        CLOCK_SLACK,
        query.limit,
        query.after,
    )


def _number(go_on: bytes) -> int | None:
    return int(go_on, 16) if go_on else None


def endings(answer: Sequence[Any]) -> list[Ending]:
    """From what lua/endings.lua answers."""
    return [
        Ending(
            task_id.decode(),
            State(state.decode()),
            None if result is None else result.decode(),
            last_error(failures),
        )
        for task_id, state, result, failures in zip(*answer, strict=True)
    ]


def explanation(task_id: str, answer: Sequence[Any] | None) -> Explanation:
    if answer is None:
        raise NotFound(f"there is no task {task_id}")
    return explain(facts(answer))


def audit(answer: Sequence[Any]) -> list[Audited]:
    lines: list[Audited] = []
    for number, pairs in answer:
        _, at, _, actor, _, action, _, subject, _, detail = (pair.decode() for pair in pairs)
        no = int(number.partition(b"-")[0])
        lines.append(Audited(no, int(at), actor, action, subject, detail))
    return lines
