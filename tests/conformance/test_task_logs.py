"""What attempts say is kept with them, in order and once, and not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import NotFound
from taskyard.domain.logs import (
    KEPT_ATTEMPTS,
    MAX_LINES,
    AttemptLog,
    Level,
    LogLine,
    LogPage,
    MovedLine,
    NewLine,
    fitting,
)
from taskyard.domain.retention import Retention
from taskyard.domain.task import Claimed, TaskQuery
from taskyard.store.port import PRUNE_LINES, Store
from tests.conformance.places import Place, StoreTime
from tests.conformance.pruning import census, prune_all
from tests.conformance.verbs import (
    bare,
    complete,
    enqueued,
    failed,
    finish,
    hold,
    node,
    released,
    running,
)


def page(task: Claimed, *texts: str, start: int = 1, first: int = 1) -> LogPage:
    lines = (NewLine(start + at, 0, Level.INFO, text) for at, text in enumerate(texts))
    return LogPage(hold(task), tuple(lines), first)


async def texts(store: Store, task_id: str) -> list[str]:
    return [line.text for line in await store.task_logs(task_id)]


@pytest.mark.spec("lifecycle-17")
async def test_lines_are_kept_as_they_were_said(store: Store, time: StoreTime) -> None:
    task = await running(store, await node(store), id="a")
    await time.advance(60)
    now = await store.now()
    said = fitting("half\0 done\n\tit's \udcff 50 % ☃ \\x00")
    lines = (
        NewLine(1, 3 * SECOND, Level.DEBUG, "begun"),
        NewLine(2, 1, Level.CRITICAL, said),
        NewLine(3, 0, Level.INFO, ""),
    )

    assert await store.append_logs([LogPage(hold(task), lines)]) == [True]

    assert await store.task_logs("a") == [
        LogLine(1, 1, now - 3 * SECOND, Level.DEBUG, "begun"),
        LogLine(1, 2, now - 1, Level.CRITICAL, said),
        LogLine(1, 3, now, Level.INFO, ""),
    ]


async def test_many_attempts_are_told_of_in_one_call(store: Store) -> None:
    worker = await node(store)
    one, two = await running(store, worker, id="one"), await running(store, worker, id="two")
    await enqueued(store, id="silent")

    assert await store.append_logs([page(two, "2a"), page(one, "1a", "1b")]) == [True, True]
    assert await store.append_logs([page(two, "2b", start=2)]) == [True]
    assert await store.append_logs([]) == []

    assert await texts(store, "one") == ["1a", "1b"]
    assert await texts(store, "two") == ["2a", "2b"]
    assert await texts(store, "silent") == []
    with pytest.raises(NotFound, match="there is no task nobody"):
        await store.task_logs("nobody")


@pytest.mark.spec("engine-19")
async def test_an_attempt_that_is_over_says_no_more(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker, id="a")
    await store.append_logs([page(first, "first")])
    await finish(store, released(first))
    assert await store.append_logs([page(first, "while it waits", start=2)]) == [False]
    second = await worker.claim_one()
    other = await running(store, worker, id="b")

    pages = [page(bare(first), "too late", start=2), page(other, "b"), page(second, "second")]
    assert await store.append_logs(pages) == [False, True, True]

    assert [(line.attempt, line.text) for line in await store.task_logs("a")] == [
        (1, "first"),
        (2, "second"),
    ]
    await complete(store, second)
    assert await store.append_logs([page(second, "after its end", start=2)]) == [False]
    assert await texts(store, "a") == ["first", "second"]


@pytest.mark.spec("engine-19")
async def test_another_lease_says_nothing(store: Store) -> None:
    task = await running(store, await node(store), id="a")
    stranger = msgspec.structs.replace(task, lease=task.lease + 1)

    assert await store.append_logs([page(stranger, "not mine")]) == [False]
    assert await store.append_logs([page(bare(task), "mine")]) == [True]

    assert await texts(store, "a") == ["mine"]


async def test_a_page_that_is_sent_again_is_kept_once(store: Store, time: StoreTime) -> None:
    task = await running(store, await node(store), id="a")
    await store.append_logs([page(task, "one", "two")])
    before = await store.task_logs("a")
    await time.advance(5)

    assert await store.append_logs([page(task, "one", "two", "three")]) == [True]

    after = await store.task_logs("a")
    assert after[:2] == before
    assert [line.text for line in after] == ["one", "two", "three"]


async def test_lines_are_read_page_by_page(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker, id="a")
    neighbour = await running(store, worker, id="b")
    await store.append_logs([page(task, "1", "2", "3"), page(neighbour, "x", "y")])
    await finish(store, failed(task))
    await store.append_logs([page(await worker.claim_one(), "4", "5")])

    read: list[LogLine] = []
    while lines := await store.task_logs("a", after=read[-1].mark if read else None, limit=2):
        assert len(lines) <= 2
        read += lines

    assert [line.text for line in read] == ["1", "2", "3", "4", "5"]
    assert read == await store.task_logs("a")
    assert [line.text for line in await store.task_logs("a", after=(2, 0))] == ["4", "5"]


async def test_an_attempt_keeps_its_last_lines(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker, id="a")
    other = await running(store, worker, id="b")
    said = AttemptLog()
    for number in range(MAX_LINES + 500):
        said.add(Level.INFO, str(number), 0.0)
        if number in (MAX_LINES // 2, MAX_LINES + 100):
            await store.append_logs([now := said.page(hold(task), 0.0), page(other, "b")])
            said.stored(now)
    await store.append_logs([said.page(hold(task), 0.0)])

    lines = await store.task_logs("a", limit=2 * MAX_LINES)

    assert [line.text for line in lines] == [str(n) for n in range(500, MAX_LINES + 500)]
    assert lines[0].number == 501
    assert await texts(store, "b") == ["b"]


async def test_a_task_keeps_the_lines_of_its_last_attempts(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker, id="a")
    for _ in range(KEPT_ATTEMPTS + 2):
        await store.append_logs([page(task, f"{task.attempt} a", f"{task.attempt} b")])
        await finish(store, released(task))
        task = await worker.claim_one()

    lines = await store.task_logs("a")

    kept = range(3, KEPT_ATTEMPTS + 3)
    assert [line.text for line in lines] == [f"{n} {what}" for n in kept for what in "ab"]


@pytest.mark.spec("lifecycle-15")
async def test_lines_go_with_their_task(store: Store, place: Place) -> None:
    worker = await node(store)
    kept = await running(store, worker, id="kept")
    await store.append_logs([page(kept, "still here")])
    before = await census(store, place)
    for _ in range(2):
        task = await running(store, worker)
        await store.append_logs([page(task, "one", "two")])
        await complete(store, task)

    assert await prune_all(store) == 2

    after = await census(store, place)
    logs = [name for name in before if name.endswith("logs")]
    assert [(name, after[name]) for name in logs] == [(name, before[name]) for name in logs]
    assert len(logs) == 1
    assert await texts(store, "kept") == ["still here"]


@pytest.mark.spec("lifecycle-15")
async def test_so_many_lines_are_pruned_in_one_step(store: Store, time: StoreTime) -> None:
    worker = await node(store, slots=4)
    tasks = [await running(store, worker) for _ in range(4)]
    for task in tasks:
        for attempt in range(1, KEPT_ATTEMPTS + 1):
            lines = (LogLine(attempt, at, 0, Level.INFO, "") for at in range(1, MAX_LINES + 1))
            await store.import_logs([MovedLine(task.no, line) for line in lines])
        await complete(store, task)
    await time.advance(1)

    retention = Retention(completed=timedelta(0))
    first = await store.prune(retention, actor="ann")

    assert first.tasks < len(tasks)
    *_, left = [one async for one in pages_of_lines(store)]
    assert left == len(tasks) * KEPT_ATTEMPTS * MAX_LINES - PRUNE_LINES
    removed, mark = first.tasks, first.mark
    while mark is not None:
        step = await store.prune(retention, actor="ann", after=mark)
        removed, mark = removed + step.tasks, step.mark
    assert removed == len(tasks)
    assert await store.export_logs() == []
    assert await store.find(TaskQuery()) == []
    assert [line.detail for line in await store.audit() if line.action == "prune"] == ["4"]


async def pages_of_lines(store: Store) -> AsyncIterator[int]:
    """How many lines there are, up to the end of each page."""
    seen, after = 0, None
    while page := await store.export_logs(after=after, limit=10_000):
        seen += len(page)
        after = (page[-1].no, *page[-1].line.mark)
        yield seen


async def test_lines_are_given_away_and_taken_over(store: Store, elsewhere: Store) -> None:
    worker = await node(store)
    one, two = await running(store, worker, id="one"), await running(store, worker, id="two")
    await store.append_logs([page(two, "3", "4"), page(one, "1", "2")])

    moved = await store.export_logs()
    assert [(line.no, line.line.text) for line in moved] == [
        *((one.no, text) for text in "12"),
        *((two.no, text) for text in "34"),
    ]
    paged = await store.export_logs(after=(one.no, 1, 1), limit=2)
    assert paged == moved[1:3]

    await elsewhere.import_logs(moved)
    await elsewhere.import_logs([])
    more = [
        msgspec.structs.replace(one, line=msgspec.structs.replace(one.line, attempt=2))
        for one in moved
    ]
    await elsewhere.import_logs([*moved[2:], *more])

    assert await store.export_logs() == [*moved[:2], *more[:2], *moved[2:], *more[2:]]
