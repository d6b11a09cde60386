"""Many tasks with two keys, of which now one and now the other is full."""

from __future__ import annotations

import pytest

from taskyard.domain.task import Claimed
from taskyard.store.port import Store
from tests.conformance.verbs import Worker, complete, enqueued, ids, new, node

MANY = 2000
FEW = 5  # claims


async def held(store: Store, worker: Worker, key: str) -> Claimed:
    """Somebody urgent has the key."""
    await enqueued(store, keys=(key,), priority=1)
    return await worker.claim_one()


async def waiting(store: Store) -> dict[str, int]:
    return {key.name: key.waiting for key in await store.keys()}


@pytest.mark.spec("engine-8", "engine-10")
@pytest.mark.parametrize("room", [1, 5])
async def test_a_backlog_moves_from_key_to_key_in_few_claims(store: Store, room: int) -> None:
    worker = await node(store, slots=50)
    holders = {"a": await held(store, worker, "a")}
    await store.enqueue([new(keys=("a", "b")) for _ in range(MANY)])
    assert await worker.claim(room) == []

    for freed, full in (("a", "b"), ("b", "a")):
        holders[full] = await held(store, worker, full)
        await complete(store, holders.pop(freed))
        before = worker.number
        assert await worker.claim(room) == []
        assert worker.number - before <= FEW
        assert await waiting(store) == {full: MANY}


@pytest.mark.spec("engine-8", "engine-10")
async def test_whoever_can_run_is_found_behind_a_backlog_that_moves(store: Store) -> None:
    worker = await node(store, slots=50)
    first = await held(store, worker, "a")
    await store.enqueue([new(keys=("a", "b")) for _ in range(MANY)])
    behind = await enqueued(store, keys=("a",))
    await held(store, worker, "b")
    await complete(store, first)

    assert await worker.claim_ids(5) == [behind]
    assert await worker.claim_ids(5) == []
    assert await waiting(store) == {"a": 0, "b": MANY}


@pytest.mark.spec("engine-8", "engine-10")
async def test_a_backlog_that_has_moved_keeps_its_order(store: Store) -> None:
    worker = await node(store, slots=50)
    first = await held(store, worker, "a")
    tasks = [new(keys=("a", "b"), priority=priority) for priority in (5, 3, 4) * 30]
    await store.enqueue(tasks)
    other = await held(store, worker, "b")
    await complete(store, first)
    assert await worker.claim(5) == []
    await complete(store, other)

    order: list[str] = []
    while found := await worker.claim(5):
        [task] = found
        order.append(task.id)
        await complete(store, task)

    assert order == ids(sorted(tasks, key=lambda task: task.priority))


@pytest.mark.spec("engine-8", "engine-10")
async def test_nobody_starts_before_those_who_come_first(store: Store) -> None:
    """One that parks gives way to a waiter who is not among the candidates yet; what stands behind
    it may park with it, but must not start before that waiter."""
    worker = await node(store, slots=50)
    first = await held(store, worker, "a")
    await enqueued(store, keys=("a", "b"), priority=2)
    waiter = await enqueued(store, keys=("a",), priority=3)
    await held(store, worker, "b")
    await enqueued(store, keys=("b",), priority=4)
    await enqueued(store, keys=("a",), priority=5)
    await complete(store, first)

    assert await worker.claim_ids(1) == [waiter]
    assert await worker.claim_ids(5) == []
