"""Lists of tasks by filter: every store shows the same."""

from __future__ import annotations

import pytest

from taskyard.domain.errors import InvalidOption
from taskyard.domain.state import State
from taskyard.domain.task import SHORT_PAYLOAD, Dedup, Progress, Task, TaskQuery
from taskyard.store.port import CLOCK_SLACK, Store
from tests.conformance.listing import line_of, paged, questions, wanted
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    finish,
    hold,
    ids,
    limit,
    node,
    running,
    seen,
    stopped,
)

pytestmark = pytest.mark.spec("lifecycle-7")


async def every_sort(store: Store, time: StoreTime) -> list[Task]:
    """Tasks in every state, of two kinds, in two lanes, with and without keys, at many times."""
    await limit(store, "k", 2)
    worker = await node(store, kinds=("work", "mail"), slots=100, lease_seconds=1e6)
    made: list[str] = []
    for round_ in range(4):
        for number, kind in enumerate(("work", "mail")):
            for lane in ("default", "slow"):
                keys = ("k",) if number == 0 else ("k", f"own {round_}") if lane == "slow" else ()
                made += [await enqueued(store, kind, lane=lane, keys=keys) for _ in range(2)]
                made.append(await enqueued(store, kind, lane=lane, delay=3_600))
                await time.advance(0.7 if round_ % 2 else 40)
        claimed = await worker.claim(6)
        await finish(
            store,
            *(failed(task, retry=False) for task in claimed[:1]),
            *(failed(task, delay=60) for task in claimed[1:2]),
            *(stopped(task) for task in claimed[2:3]),
        )
        for task in claimed[3 : 5 if round_ else 6]:
            await complete(store, task)
        await store.pause(made[-1], actor="ann")
        await store.cancel(made[-4], actor="ann")
        await time.advance(7)
    await worker.claim(2)
    tasks = [await seen(store, task_id) for task_id in made]
    assert {task.state for task in tasks} == set(State)
    assert any(task.parked_on for task in tasks)
    return tasks


async def test_every_state_with_every_other_filter_finds_its_own(
    store: Store, time: StoreTime
) -> None:
    tasks = await every_sort(store, time)

    for query in questions(tasks):
        assert await store.find(query) == wanted(tasks, query), query


async def test_pages_show_the_same_without_what_may_be_large(store: Store, time: StoreTime) -> None:
    tasks = await every_sort(store, time)

    for query in questions(tasks):
        expected = [line_of(task) for task in wanted(tasks, query)]
        assert await paged(store, query, 3) == expected, query
        assert (await store.page(query)).tasks == expected, query


async def test_a_line_says_all_that_is_short(store: Store) -> None:
    worker = await node(store)
    task = await running(
        store, worker, keys=("a", "b"), group="g", dedup=Dedup("d"), payload='{"n":1}', priority=3
    )
    await store.report(hold(task), Progress(1, 3, "a third"))
    await store.checkpoint(hold(task), '"far"')
    await store.cancel(task.id, actor="ann")

    [line] = (await store.page(TaskQuery())).tasks

    assert line == line_of(await seen(store, task.id))
    assert (line.progress, line.asked, line.payload) == (
        Progress(1, 3, "a third"),
        "cancel",
        '{"n":1}',
    )


async def test_a_line_has_the_last_error_without_its_stack(store: Store) -> None:
    task = await running(store, await node(store))
    await finish(store, failed(task, retry=False))

    [line] = (await store.page(TaskQuery(state=State.FAILED))).tasks

    assert line.error is not None
    assert (line.error.type, line.error.message, line.error.stack) == ("ValueError", "it broke", "")


@pytest.mark.parametrize(
    ("payload", "is_listed"),
    [
        ('"' + "x" * (SHORT_PAYLOAD - 2) + '"', True),
        ('"' + "x" * (SHORT_PAYLOAD - 1) + '"', False),
        ('"' + "é" * (SHORT_PAYLOAD // 2 - 1) + '"', True),
        ('"' + "é" * (SHORT_PAYLOAD // 2) + '"', False),
        ('"' + "x" * 100_000 + '"', False),
    ],
    ids=["as long as may be", "a byte more", "in bytes", "in bytes, more", "long"],
)
async def test_a_payload_is_listed_if_it_is_short(
    store: Store, payload: str, is_listed: bool
) -> None:
    await enqueued(store, payload=payload)

    [line] = (await store.page(TaskQuery())).tasks

    assert line.payload == (payload if is_listed else None)


async def test_since_counts_its_moment_and_until_does_not(store: Store, time: StoreTime) -> None:
    made = []
    for _ in range(3):
        made.append(await enqueued(store))
        await time.advance(1)
    moment = (await seen(store, made[1])).created_at

    assert ids(await store.find(TaskQuery(since=moment))) == made[:0:-1]
    assert ids(await store.find(TaskQuery(since=moment + 1))) == made[:1:-1]
    assert ids(await store.find(TaskQuery(until=moment))) == made[:1]
    assert ids(await store.find(TaskQuery(until=moment + 1))) == made[1::-1]
    assert ids(await store.find(TaskQuery(since=moment, until=moment + 1))) == [made[1]]
    assert await store.find(TaskQuery(since=moment, until=moment)) == []


async def test_times_are_exact_where_the_clock_went_back_a_little(
    store: Store, time: StoreTime
) -> None:
    tasks = []
    for seconds in (10, -2, 1, -3, 20, -CLOCK_SLACK / 1e6, 0.5, 30):
        await time.advance(seconds)
        tasks += [await seen(store, await enqueued(store, keys=("k",))) for _ in range(2)]
    times = sorted({task.created_at for task in tasks})

    for since in times:
        for until in times:
            for key in (None, "k"):
                query = TaskQuery(since=since, until=until, key=key)
                assert await store.find(query) == wanted(tasks, query)


async def test_pages_by_time_stay_put_while_new_tasks_arrive(store: Store, time: StoreTime) -> None:
    made = []
    for _ in range(7):
        made.append(await enqueued(store))
        await time.advance(20)
    since = (await seen(store, made[1])).created_at
    pages: list[list[str]] = []
    after: int | None = None
    while page := await store.find(TaskQuery(limit=3, since=since, after=after)):
        pages.append(ids(page))
        after = page[-1].no
        await enqueued(store)

    assert pages == [made[6:3:-1], made[3:0:-1]]


async def test_more_lanes_and_kinds_than_a_page_has_tasks(store: Store) -> None:
    kinds = tuple(f"kind {number}" for number in range(6))
    worker = await node(store, kinds=kinds, slots=100)
    made = [
        await enqueued(store, kind, lane=f"lane {number % 5}")
        for number in range(3)
        for kind in kinds
        for number in (number, number + 1)
    ]
    for task in await worker.claim(100):
        await complete(store, task)
    tasks = [await seen(store, task_id) for task_id in made]

    for query in questions(tasks):
        expected = [line_of(task) for task in wanted(tasks, query)]
        assert await paged(store, query, 2) == expected, query


async def test_there_is_no_page_after_the_last(store: Store) -> None:
    for _ in range(3):
        await enqueued(store)

    assert (await store.page(TaskQuery(limit=4))).next is None
    full = await store.page(TaskQuery(limit=3))
    assert full.next == full.tasks[-1].no
    assert await store.page(TaskQuery(limit=3, after=full.next)) == type(full)([], None)


@pytest.mark.parametrize("size", [0, 1001])
async def test_a_page_has_as_many_as_find(store: Store, size: int) -> None:
    with pytest.raises(InvalidOption, match="from 1 to 1000"):
        await store.page(TaskQuery(limit=size))
