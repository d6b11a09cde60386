"""Pages of tasks, without holding more of them than need be.

A listed task comes with its payload and result, up to some megabytes. They are dropped piece by
piece, and a page that has become too heavy ends early: its `next` says where to go on.
"""

from __future__ import annotations

import msgspec

from taskyard.domain.task import Task, TaskQuery
from taskyard.server import cursor as cursors
from taskyard.server.views import TaskPage, TaskSummary, summary
from taskyard.yard import Yard

PIECE = 50  # tasks
HEAVY = 16_000_000  # characters of payloads, results and checkpoints


async def page_of(yard: Yard, query: TaskQuery) -> TaskPage:
    items: list[TaskSummary] = []
    weight, after = 0, query.after
    while (wanted := query.limit - len(items)) > 0:
        piece = msgspec.structs.replace(query, limit=min(PIECE, wanted), after=after)
        found = await yard.find(piece)
        items += [summary(task) for task in found]
        if len(found) < piece.limit:
            return TaskPage(items, None)
        after = found[-1].no
        weight += sum(map(_weight, found))
        if weight > HEAVY:
            break
    return TaskPage(items, None if after is None else cursors.written(after))


def _weight(task: Task) -> int:
    return sum(len(text) for text in (task.payload, task.result, task.checkpoint) if text)
