"""Lanes that are paused or limited while a claim waits for its node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from taskyard.store.port import Store
from taskyard.store.postgres.queries import in_namespace
from tests.conformance.places import PostgresSchema
from tests.conformance.verbs import Worker, capacity, enqueued, node, pause
from tests.servers.postgres import shared_url

HANGS = 30.0
WAITS = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE $1 = ANY (pg_blocking_pids(pid)))"


@pytest.fixture
def place(tmp_path: Path) -> PostgresSchema:
    return PostgresSchema(tmp_path)


@pytest.fixture
async def store(place: PostgresSchema) -> AsyncIterator[Store]:
    store = place.view()
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def claiming(place: PostgresSchema, worker: Worker) -> AsyncIterator[asyncio.Task[list[str]]]:
    """A claim that has looked for lanes and waits for the row of its node, until the end."""
    namespace = place.url.partition("namespace=")[2]
    blocker = await asyncpg.connect(shared_url())
    try:
        async with asyncio.timeout(HANGS), blocker.transaction():
            lock = "SELECT 1 FROM taskyard.nodes WHERE lease = $1 FOR NO KEY UPDATE"
            await blocker.execute(in_namespace(lock, namespace), worker.lease)
            claim = asyncio.create_task(worker.claim_ids(5))
            while True:
                if await blocker.fetchval(WAITS, blocker.get_server_pid()):
                    break
                await asyncio.sleep(0.01)
            yield claim
    finally:
        await blocker.close()


@pytest.mark.spec("engine-29")
async def test_nothing_is_claimed_from_a_lane_once_it_is_paused(
    store: Store, place: PostgresSchema
) -> None:
    worker = await node(store)
    await enqueued(store, lane="quiet")
    other = await enqueued(store, lane="loud")
    async with claiming(place, worker) as claim:
        await pause(store, "quiet")

    assert await claim == [other]


@pytest.mark.spec("engine-9", "engine-29")
async def test_no_more_is_claimed_from_a_lane_than_its_new_capacity(
    store: Store, place: PostgresSchema
) -> None:
    worker = await node(store)
    first, *_ = [await enqueued(store) for _ in range(3)]
    async with claiming(place, worker) as claim:
        await capacity(store, "default", 1)

    assert await claim == [first]
