"""Whoever holds the room waits for a caller's transaction a moment only, and is then told so, or
tries again.

All limited claims would wait with it, for as long as the caller takes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskyard.domain.errors import StoreBusy
from taskyard.domain.lane import Order
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Clash, Dedup, Duplicate, NewTask
from tests.conformance.verbs import (
    change,
    enqueued,
    failed,
    finish,
    new,
    node,
    running,
    seen,
    state_of,
)
from tests.store.postgres_place import connected, yard

pytestmark = pytest.mark.spec("engine-8", "engine-29")


def newer() -> NewTask:
    return new(dedup=Dedup("d", clash=Clash.REPLACE), payload="[2]")


async def test_retry_while_a_caller_takes_the_dedup_key() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        task = await running(store, await node(store), dedup=Dedup("d"))
        await finish(store, failed(task, retry=False))
        opened = caller.transaction()
        await opened.start()
        await store.enqueue_in(caller, [new(dedup=Dedup("d"))])
        with pytest.raises(StoreBusy, match="repeat the call"):
            await store.retry(task.id, actor="ann")
        await opened.rollback()
        await store.retry(task.id, actor="ann")

        assert await state_of(store, task.id) == (State.QUEUED, Reason.OPERATOR)


async def test_prioritize_while_a_caller_changes_the_task() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        idle = await enqueued(store, dedup=Dedup("d"), priority=5)
        await store.pause(idle, actor="ann")
        async with caller.transaction():
            assert await store.enqueue_in(caller, [newer()]) == [Duplicate(idle, changed=True)]
            with pytest.raises(StoreBusy, match="repeat the call"):
                await store.prioritize(idle, 2, actor="ann")
        await store.prioritize(idle, 2, actor="ann")

        kept = await seen(store, idle)
        assert (kept.priority, kept.payload) == (2, "[2]")


async def test_another_order_while_a_caller_changes_a_task_of_the_lane() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        tasks = [await enqueued(store, dedup=Dedup("d")), await enqueued(store, priority=1)]
        async with caller.transaction():
            await store.enqueue_in(caller, [newer()])
            with pytest.raises(StoreBusy, match="repeat the call"):
                await change(store, "default", order=Order.FIFO)
        await change(store, "default", order=Order.FIFO)

        assert await (await node(store)).claim_ids(10) == tasks


async def test_an_enqueue_behind_a_full_key_while_a_caller_takes_the_id() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        await running(store, await node(store), keys=("k",))
        opened = caller.transaction()
        await opened.start()
        await store.enqueue_in(caller, [new(id="same")])
        row, tries, again = store._database.row, 0, asyncio.Event()

        async def counted(statement: str, *args: object) -> Any:
            nonlocal tries
            tries += 1
            if tries == 2:
                again.set()
            return await row(statement, *args)

        store._database.row = counted  # type: ignore[method-assign]
        saving = asyncio.create_task(store.enqueue([new(id="same", keys=("k",))]))
        await again.wait()  # it has let the room go in between
        assert not saving.done()
        await opened.rollback()
        await saving

        assert (await seen(store, "same")).parked_on == "k"
