"""How many tasks have completed: the entries that changes leave behind come to what is there."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from taskyard.domain.retention import Retention
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.task import TaskQuery
from taskyard.store.port import Mark, Store
from tests.conformance.verbs import complete, enqueued, failed, finish, node, running, stopped
from tests.store.postgres_place import connected, yard

pytestmark = pytest.mark.spec("engine-5", "engine-12")

SUM_UP = "SELECT taskyard.sum_up_completed()"
AT_ONCE = Retention(completed=timedelta(0), failed=timedelta(0), cancelled=timedelta(0))
ENTRIES = "SELECT count(*) FROM taskyard.completed"


async def some_end(store: Store, tasks: int) -> None:
    worker = await node(store)
    for number in range(tasks):
        task = await running(store, worker)
        match number % 3:
            case 0:
                await complete(store, task)
            case 1:
                await finish(store, failed(task, retry=False))
            case _:
                await finish(store, stopped(task))


async def check(store: Store) -> None:
    there = Counter(task.state for task in await store.find(TaskQuery(limit=1000)))
    assert await store.counts() == {state: there[state] for state in State}


async def test_what_is_summed_up_while_tasks_end_comes_to_the_same() -> None:
    async with yard() as here:
        ending = asyncio.create_task(some_end(here.store, 30))
        while not ending.done():
            await asyncio.gather(*(here.value(SUM_UP) for _ in range(3)))
        await ending
        await check(here.store)
        await here.value(SUM_UP)
        assert await here.value(ENTRIES) == 1
        await check(here.store)


async def test_what_is_retried_or_pruned_is_not_counted_any_more() -> None:
    async with yard() as here:
        store = here.store
        await some_end(here.store, 9)
        [first, *_] = await store.find(TaskQuery(state=State.FAILED))
        await store.retry(first.id, actor="ann")
        await store.cancel(await enqueued(store, delay=60), actor="ann")
        await check(here.store)
        for state in TERMINAL:
            await store.prune(AT_ONCE, actor="ann", after=Mark(state))
        await check(here.store)


async def test_a_transaction_that_is_given_up_leaves_no_entry() -> None:
    async with yard() as here, connected() as other:
        await some_end(here.store, 3)
        giving_up = other.transaction()
        await giving_up.start()
        await other.execute(here.here("SELECT taskyard.count_completed(5)"))
        await other.execute(here.here(SUM_UP))
        await here.value(SUM_UP)  # leaves alone what the other one sums up
        await check(here.store)
        await giving_up.rollback()
        await check(here.store)


async def test_who_sees_the_past_sums_nothing_up() -> None:
    async with yard() as here, connected() as other:
        await some_end(here.store, 2)
        async with other.transaction(isolation="repeatable_read"):
            entries = await other.fetchval(here.here(ENTRIES))
            await here.value(SUM_UP)
            await other.execute(here.here(SUM_UP))
            assert await other.fetchval(here.here(ENTRIES)) == entries
        await check(here.store)


async def test_an_entry_that_is_missing_is_made_up_for_when_something_is_pruned() -> None:
    """As of tasks that the functions of an older release have ended while they were replaced."""
    async with yard() as here:
        await some_end(here.store, 6)
        await here.value("DELETE FROM taskyard.completed")
        ending = asyncio.create_task(some_end(here.store, 30))
        while not ending.done():
            audit = Mark("audit")
            await asyncio.gather(
                *(here.store.prune(Retention(), actor="ann", after=audit) for _ in range(3)),
                here.value(SUM_UP),
            )
        await ending
        await check(here.store)
