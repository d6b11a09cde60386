"""What comes between an attempt and its end on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from taskyard.domain.state import Reason, State
from tests.conformance.verbs import complete, node, running, state_of, succeeded
from tests.store.postgres_place import connected, someone_waits, yard

CANCEL = "SELECT taskyard.cancel(0, $1, 'ann')"
FINISHED = (State.COMPLETED, Reason.FINISHED)


@pytest.mark.spec("engine-29", "engine-19")
async def test_a_wish_to_cancel_that_comes_while_tasks_end_keeps_none_from_its_end() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        tasks = [await running(store, worker) for _ in range(3)]
        async with caller.transaction():
            await caller.execute(place.here(CANCEL), tasks[1].id)
            ending = asyncio.create_task(complete(store, *tasks))
            await someone_waits(place)

        await ending
        assert [await state_of(store, task.id) for task in tasks] == [FINISHED] * 3


@pytest.mark.spec("engine-19")
async def test_of_many_that_end_alike_and_not_alike_each_has_its_own_result() -> None:
    async with yard() as place:
        store = place.store
        worker = await node(store)
        for results in (["1", "1", "1"], ["1", None, "3"], [None, None, None], ["7"]):
            tasks = [await running(store, worker) for _ in results]
            ends = zip(tasks, results, strict=True)
            await store.finish([succeeded(task, result) for task, result in ends])

            kept = [await store.get(task.id) for task in tasks]
            assert [task and task.result for task in kept] == results
