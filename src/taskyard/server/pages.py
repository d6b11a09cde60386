"""Pages of tasks, each after a bounded search: short or empty ones may have a next one too.

A payload that is long is not listed. Of a task whose error or note could repeat a secret of it, it
is read after all; a page with many of those ends early.
"""

from __future__ import annotations

import msgspec

from taskyard.domain.task import TaskLine, TaskQuery
from taskyard.server import cursor as cursors
from taskyard.server import limits
from taskyard.server.views import TaskPage, TaskSummary, speaks, summary
from taskyard.yard import Yard


async def page_of(yard: Yard, query: TaskQuery) -> TaskPage:
    found = await yard.page(query)
    made = _Making(yard)
    after = query.after
    for line in found.tasks:
        if not await made.add(line):
            return made.page(after)
        after = line.no
    return made.page(found.next)


async def containing(yard: Yard, query: TaskQuery, text: str) -> TaskPage:
    """Those with a text that no index knows, among so many tasks and no more."""
    if query.after is None and (found := await _named(yard, query, text)) is not None:
        return found
    wanted, after = text.casefold(), query.after
    made = _Making(yard, wanted)
    for _ in range(limits.MAX_SEARCHES):
        page = await yard.page(msgspec.structs.replace(query, limit=limits.MAX_PAGE, after=after))
        for line in page.tasks:
            if has(line, wanted) and not await made.add(line):
                return made.page(after)
            after = line.no
            if len(made.items) == query.limit:
                return made.page(after)
        after = page.next
        if after is None:
            break
    return made.page(after)


async def _named(yard: Yard, query: TaskQuery, task_id: str) -> TaskPage | None:
    """The task with this id, if the other filters let it pass: the store knows what that means."""
    task = await yard.store.get(task_id)
    if task is None:
        return None
    page = await page_of(yard, msgspec.structs.replace(query, limit=1, after=task.no + 1))
    return TaskPage(page.items, None) if [one.id for one in page.items] == [task_id] else None


class _Making:
    """A page in the making."""

    def __init__(self, yard: Yard, wanted: str = "") -> None:
        self._yard = yard
        self._wanted = wanted
        self._opened = 0
        self.items: list[TaskSummary] = []

    async def add(self, line: TaskLine) -> bool:
        """False if this one belongs on the next page."""
        if line.payload is None and speaks(line):
            if self._opened == limits.MAX_OPENED:
                return False
            self._opened += 1
            task = await self._yard.store.get(line.id)
            if task is None:
                return True  # it is gone meanwhile
            line = msgspec.structs.replace(line, payload=task.payload)
        shown = summary(line)
        if has(shown, self._wanted):  # what is hidden must not be found by guessing either
            self.items.append(shown)
        return True

    def page(self, after: int | None) -> TaskPage:
        return TaskPage(self.items, None if after is None else cursors.written(after))


def has(task: TaskLine | TaskSummary, wanted: str) -> bool:
    texts = (task.id, task.kind, task.lane, task.group, *task.keys)
    error = () if task.error is None else (task.error.type, task.error.message)
    return any(wanted in text.casefold() for text in (*texts, *error))
