"""Looks at tasks and at what was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from taskyard.domain.errors import InvalidOption, NotFound
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Ending
from taskyard.store.redis.explain import FAR_BACK, UNMET, explain, facts
from taskyard.store.redis.rows import last_error, whole_tasks

__all__ = ["FAR_BACK", "UNMET", "audit", "endings", "explanation", "find", "whole_tasks"]

MAX_PAGE = 1000

Ask = Callable[..., Awaitable[Any]]


async def find(ask: Ask, query: TaskQuery) -> list[Task]:
    if not 1 <= query.limit <= MAX_PAGE:
        raise InvalidOption(f"limit must be from 1 to {MAX_PAGE}, not {query.limit}")
    states = list(State) if query.state is None else [query.state]
    found: list[Task] = []
    after = query.after
    while True:
        left = query.limit - len(found)
        go_on, tasks = await ask("find", states, query.lane, query.kind, query.key, left, after)
        found += whole_tasks(tasks)
        if not go_on:
            return found
        after = int(go_on, 16)


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
