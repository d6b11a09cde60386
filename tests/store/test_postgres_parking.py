"""Tasks with several keys, of which now one and now another is full."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.domain.task import Claimed
from taskyard.store.port import Store
from tests.conformance.places import PostgresSchema
from tests.conformance.verbs import Worker, complete, enqueued, new, node

MANY = 400


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = PostgresSchema(tmp_path).view()
    await store.open()
    yield store
    await store.close()


async def held(store: Store, worker: Worker, key: str) -> Claimed:
    """Somebody urgent has the key."""
    await enqueued(store, keys=(key,), priority=1)
    return await worker.claim_one()


async def claims(worker: Worker, room: int) -> tuple[list[str], int]:
    """What is found, and in how many claims."""
    before = worker.number
    found = await worker.claim_ids(room)
    return found, worker.number - before


@pytest.mark.spec("engine-8", "engine-10")
@pytest.mark.parametrize("room", [1, 5])
async def test_a_backlog_moves_from_key_to_key_in_sets(store: Store, room: int) -> None:
    worker = await node(store, slots=50)
    holders = {"a": await held(store, worker, "a")}
    await store.enqueue([new(keys=("a", "b")) for _ in range(MANY)])
    assert await worker.claim(room) == []

    for freed, full in (("a", "b"), ("b", "a"), ("a", "b")):
        holders[full] = await held(store, worker, full)
        await complete(store, holders.pop(freed))
        found, count = await claims(worker, room)
        assert found == []
        assert count < MANY / 50, count
        assert {key.name: key.waiting for key in await store.keys()} == {full: MANY}


@pytest.mark.spec("engine-8", "engine-10")
async def test_whoever_can_run_is_found_behind_a_backlog_that_moves(store: Store) -> None:
    worker = await node(store, slots=50)
    first = await held(store, worker, "a")
    await store.enqueue([new(keys=("a", "b")) for _ in range(MANY)])
    behind = await enqueued(store, keys=("a",))
    other = await held(store, worker, "b")
    await complete(store, first)

    assert await worker.claim_ids(5) == [behind]
    assert await worker.claim_ids(5) == []
    assert {key.name: key.waiting for key in await store.keys()} == {"a": 0, "b": MANY}
    assert other.id != behind


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

    assert order == [task.id for task in sorted(tasks, key=lambda task: task.priority)]
