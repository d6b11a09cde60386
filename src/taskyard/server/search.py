"""Finding tasks by a text that no index knows: page by page, so far and no further at once."""

from __future__ import annotations

import msgspec

from taskyard.domain.task import Task, TaskQuery
from taskyard.server import limits
from taskyard.yard import Yard


async def containing(yard: Yard, query: TaskQuery, text: str) -> tuple[list[Task], int | None]:
    """Those with this text, and the number of the last one looked at unless that was the end."""
    found: list[Task] = []
    if query.after is None and (exact := await yard.store.get(text)) is not None:
        return [exact], None
    wanted, seen = text.casefold(), 0
    step = msgspec.structs.replace(query, limit=limits.MAX_PAGE)
    while seen < limits.MAX_SEARCHED:
        page = await yard.find(step)
        for task in page:
            if _has(task, wanted):
                found.append(task)
                if len(found) == query.limit:
                    return found, task.no
        seen += len(page)
        if len(page) < limits.MAX_PAGE:
            return found, None
        step = msgspec.structs.replace(step, after=page[-1].no)
    return found, step.after


def _has(task: Task, wanted: str) -> bool:
    texts = (task.id, task.kind, task.lane, task.group, *task.keys)
    error = () if task.error is None else (task.error.type, task.error.message)
    return any(wanted in text.casefold() for text in (*texts, *error))
