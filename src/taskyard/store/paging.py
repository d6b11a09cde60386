"""Lists of tasks, the same for every store: a store searches a little at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.task import Page, Task, TaskLine, TaskQuery
from taskyard.store.port import CLOCK_SLACK

Found = tuple[list[Task], int | None]
"""Tasks, and the number below which to go on if the search stopped before the page was full."""

Probe = Callable[[int], "tuple[int, Instant] | None"]
"""The first task from a number on, and when it was created."""


async def full(query: TaskQuery, search: Callable[[TaskQuery], Awaitable[Found]]) -> list[Task]:
    """Search on until the page is full."""
    query.check()
    found: list[Task] = []
    rest = query
    while True:
        tasks, go_on = await search(rest)
        found += tasks
        if go_on is None:
            return found
        rest = msgspec.structs.replace(query, limit=query.limit - len(found), after=go_on)


def page(query: TaskQuery, lines: Sequence[TaskLine], go_on: int | None) -> Page:
    if go_on is None and len(lines) == query.limit:
        go_on = lines[-1].no
    return Page(list(lines), go_on)


def number_since(moment: Instant, last: int, probe: Probe) -> int:
    """The first number whose task was created at this moment or later, by halving."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        found = probe(middle)
        if found is None or found[1] >= moment:
            high = middle
        else:
            low = found[0] + 1
    return low


def bounds(query: TaskQuery, last: int, probe: Probe) -> tuple[int, int]:
    """Below which number to look, and down to which."""
    below, least = last + 1, 0
    if query.until is not None:
        below = number_since(query.until + CLOCK_SLACK, last, probe)
    if query.since is not None:
        least = number_since(query.since - CLOCK_SLACK, last, probe)
    if query.after is not None:
        below = min(below, query.after)
    return below, least
