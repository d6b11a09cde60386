"""Takes everything from one store to another, so that nothing is lost and nothing runs twice.

The source is paused and stays so, unless the copy is refused. It must be quiet: no workers, nothing
running. The target is paused until all is there and has been compared. A copy that was interrupted
leaves nothing but tasks of the source in the target; it is simply made again and goes over what is
there already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from taskyard.domain.errors import CannotCopy
from taskyard.domain.logs import MovedLine
from taskyard.domain.moved import Moved
from taskyard.domain.state import State
from taskyard.store.port import Store, YardPause
from taskyard.store.standstill import ProvenDead, nobody, operators_pause, pause, quiet, set_pause

FIRST_PAGE = 4
GROWTH = 4  # how many times larger the next page may be, however small the tasks were
MAX_PAGE = 1000
PAGE_BYTES = 8_000_000
LOG_PAGE = 1000  # lines: some 100 kB, and 8 MB at most

Told = Callable[[str, int], None]
"""What is being done, and how many tasks of it are done now."""


async def copy(
    source: Store,
    target: Store,
    *,
    actor: str,
    wait: bool = False,
    proven_dead: ProvenDead = nobody,
    told: Told = lambda *_: None,
) -> Mapping[State, int]:
    """Copy, compare, and let the target go on, or be paused as its operator had paused the source.

    Answers how many tasks are in each state there.
    """
    await _refuse_strangers(source, target)
    was, found = await source.yard_paused(), await operators_pause(source)
    try:
        await pause(source, target, actor, found)
        await quiet(source, wait=wait, proven_dead=proven_dead)
        if await target.nodes():
            raise CannotCopy("workers are running on the target; stop them first")
    except CannotCopy:
        if was != YardPause(None):
            await set_pause(source, was, actor)
        raise
    await _copy_audit(source, target)
    await target.pause_yard(True, actor=actor)
    await target.import_settings(
        lanes=await source.lanes(), rules=await source.key_rules(), crons=await source.crons()
    )
    buckets = await source.buckets()
    for at in range(0, len(buckets), MAX_PAGE):
        await target.import_settings(buckets=buckets[at : at + MAX_PAGE])
    async for page in oldest_first(source):
        await target.import_tasks(page)
        told("copy", len(page))
    async for lines in _log_pages(source):
        await target.import_logs(lines)
    counts = await _compare(source, target, told)
    await set_pause(target, found, actor)
    return counts


async def oldest_first(store: Store) -> AsyncIterator[list[Moved]]:
    """All tasks, so that those a task depends on come before it.

    They can only be read from the end: the borders of the pages are noted first.
    """
    borders: list[tuple[int | None, int]] = []
    after: int | None = None
    async for page in pages(store):
        borders.append((after, len(page)))
        after = page[-1].task.no
    for after, limit in reversed(borders):
        page = await store.export(after=after, limit=limit)
        yield [moved.settled() for moved in reversed(page)]


async def pages(store: Store) -> AsyncIterator[list[Moved]]:
    """All tasks, newest first, about as many bytes at a time."""
    after, limit = None, FIRST_PAGE
    while page := await store.export(after=after, limit=limit):
        yield [moved.settled() for moved in page]
        after = page[-1].task.no
        size = sum(map(_size, page))
        limit = max(1, min(MAX_PAGE, GROWTH * limit, PAGE_BYTES * len(page) // (size + 1)))


def _size(moved: Moved) -> int:
    task = moved.task
    errors = [failure.error for failure in task.failures if failure.error is not None]
    return (
        len(task.payload)
        + len(task.result or "")
        + len(task.checkpoint or "")
        + sum(map(len, task.depends_on))
        + sum(len(error.message) + len(error.stack or "") for error in errors)
    )


async def _log_pages(store: Store) -> AsyncIterator[list[MovedLine]]:
    """What attempts have said, some at a time."""
    after: tuple[int, int, int] | None = None
    while page := await store.export_logs(after=after, limit=LOG_PAGE):
        yield page
        after = (page[-1].no, *page[-1].line.mark)


async def _have_same_logs(source: Store, target: Store) -> bool:
    others = _log_pages(target)
    async for page in _log_pages(source):
        if page != await anext(others, None):
            return False
    return await anext(others, None) is None


async def _each(store: Store) -> AsyncIterator[Moved]:
    async for page in pages(store):
        for moved in page:
            yield moved


async def _refuse_strangers(source: Store, target: Store) -> None:
    """What is in the target must be what an earlier copy of this very source left there."""
    full = any((await target.counts()).values())
    foreign = full and await difference(source, target) is not None
    if foreign or not await _has_same_history(source, target):
        raise CannotCopy(
            "the target is not empty; copy into one that is, or into what an interrupted copy of "
            "the same source has left"
        )


async def _has_same_history(source: Store, target: Store) -> bool:
    """Whether nothing was done to the target but to copy into it."""
    lines = await target.audit(limit=MAX_PAGE)
    if not lines:
        return True
    theirs = {a.no: a for a in await source.audit(limit=MAX_PAGE, before=lines[0].no + 1)}
    return all(line.subject == "yard" or theirs.get(line.no) == line for line in lines)


async def difference(source: Store, target: Store, told: Told = lambda *_: None) -> str | None:
    """The first task of the target that is not the same in the source."""
    others = _each(source)
    other = await anext(others, None)
    async for moved in _each(target):
        while other is not None and other.task.no > moved.task.no:
            other = await anext(others, None)
        if other != moved:
            return moved.task.id
        told("compare", 1)
    return None


async def _copy_audit(source: Store, target: Store) -> None:
    """Oldest first, though it can only be read from the end: the borders of the pages are noted."""
    borders: list[int | None] = [None]
    while page := await source.audit(limit=MAX_PAGE, before=borders[-1]):
        borders.append(page[-1].no)
    for before in reversed(borders[:-1]):
        lines = await source.audit(limit=MAX_PAGE, before=before)
        await target.import_settings(audit=lines[::-1])


async def _compare(source: Store, target: Store, told: Told) -> Mapping[State, int]:
    counts, wanted = await target.counts(), await source.counts()
    if counts != wanted:
        shown = ", ".join(
            f"{state}: {wanted[state]} there, {counts[state]} here"
            for state in State
            if wanted[state] != counts[state]
        )
        raise CannotCopy(f"the source has changed meanwhile ({shown}); stop whoever uses it")
    wrong = await difference(source, target, told)
    if wrong is not None:
        raise CannotCopy(f"task {wrong} is not the same in both; stop whoever uses the source")
    if not await _have_same_logs(source, target):
        raise CannotCopy("the logs of tasks are not the same in both; stop whoever uses the source")
    return counts
