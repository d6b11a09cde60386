"""What a list must show, from all tasks as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from taskyard.domain.state import State
from taskyard.domain.task import SHORT_PAYLOAD, Page, Task, TaskLine, TaskQuery
from taskyard.store.port import Store

EVERYTHING = 1000


def line_of(task: Task) -> TaskLine:
    whole = msgspec.structs.asdict(task)
    shown = {name: whole[name] for name in TaskLine.__struct_fields__}
    error = task.error
    return TaskLine(
        **shown
        | {
            "payload": task.payload if len(task.payload.encode()) <= SHORT_PAYLOAD else None,
            "error": None if error is None else msgspec.structs.replace(error, stack=""),
        }
    )


def wanted(tasks: Iterable[Task], query: TaskQuery) -> list[Task]:
    """All that match, newest first."""
    return sorted(
        (
            task
            for task in tasks
            if query.state in (None, task.state)
            and query.kind in (None, task.kind)
            and query.lane in (None, task.lane)
            and (query.key is None or query.key in task.keys)
            and (query.since is None or task.created_at >= query.since)
            and (query.until is None or task.created_at < query.until)
        ),
        key=lambda task: -task.no,
    )


def questions(tasks: Iterable[Task]) -> Iterator[TaskQuery]:
    """Each state, and none, with each of the other filters that finds something, and with none."""
    found = list(tasks)
    filters: list[dict[str, object]] = [{}]
    filters += [{"kind": kind} for kind in sorted({task.kind for task in found})]
    filters += [{"lane": lane} for lane in sorted({task.lane for task in found})]
    filters += [{"key": key} for key in sorted({key for task in found for key in task.keys})]
    times = sorted({task.created_at for task in found})
    filters += [{"since": since} for since in times[::3]]
    filters += [{"until": until} for until in times[::3]]
    filters += [{"since": a, "until": b} for a, b in zip(times, times[2:], strict=False)]
    for state in (None, *State):
        for one in filters:
            yield TaskQuery(state=state, limit=EVERYTHING, **one)  # type: ignore[arg-type]


async def paged(store: Store, query: TaskQuery, size: int) -> list[TaskLine]:
    """All pages, one after the other."""
    found: list[TaskLine] = []
    after = None
    while True:
        page: Page = await store.page(msgspec.structs.replace(query, limit=size, after=after))
        assert len(page.tasks) <= size
        found += page.tasks
        if page.next is None:
            return found
        assert after is None or page.next < after
        after = page.next
