"""Lanes that are paused or limited while a claim is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from taskyard.store.port import ClaimRequest, Store
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.postgres.turn import TURN, turn_args
from tests.conformance.places import PostgresSchema
from tests.conformance.verbs import capacity, enqueued, node, pause
from tests.servers.postgres import shared_url

HANGS = 30.0
WAITS = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE $1 = ANY (pg_blocking_pids(pid)))"
LOCK_NODES = "SELECT taskyard.lock_nodes($1)"
SET_LANE = "SELECT taskyard.set_lane(0, 'default', $1, 1000, 'ann')"

Behind = Callable[[], Awaitable[bool]]


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
async def held(place: PostgresSchema, statement: str, *args: object) -> AsyncIterator[Behind]:
    """A transaction that has done this and stays open until the end."""
    namespace = place.url.partition("namespace=")[2]
    connection = await asyncpg.connect(shared_url())
    try:
        async with asyncio.timeout(HANGS), connection.transaction():
            await connection.execute(in_namespace(statement, namespace), *args)
            yield lambda: connection.fetchval(WAITS, connection.get_server_pid())
    finally:
        await connection.close()


async def waits(call: asyncio.Task[Any], behind: Behind) -> bool:
    """Whether this call comes to wait for that transaction."""
    while not call.done():
        if await behind():
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.mark.spec("engine-29")
async def test_nothing_is_claimed_from_a_lane_once_it_is_paused(
    store: Store, place: PostgresSchema
) -> None:
    worker = await node(store)
    await enqueued(store, lane="quiet")
    other = await enqueued(store, lane="loud")
    async with held(place, LOCK_NODES, [worker.lease]) as behind:
        claim = asyncio.create_task(worker.claim_ids(5))
        assert await waits(claim, behind)
        await pause(store, "quiet")

    assert await claim == [other]


@pytest.mark.spec("engine-9", "engine-29")
async def test_no_more_is_claimed_from_a_lane_than_its_new_capacity(
    store: Store, place: PostgresSchema
) -> None:
    """The claim has looked for lanes before the capacity is there."""
    worker = await node(store)
    first, *_ = [await enqueued(store) for _ in range(3)]
    async with held(place, SET_LANE, '{"capacity": 1}') as behind:
        claim = asyncio.create_task(worker.claim_ids(5))
        assert await waits(claim, behind)

    assert await claim == [first]


@pytest.mark.spec("engine-9", "engine-29")
async def test_a_new_capacity_counts_what_a_claim_under_way_takes(
    store: Store, place: PostgresSchema
) -> None:
    one, other = await node(store), await node(store, "node-b")
    for _ in range(3):
        await enqueued(store)
    request = ClaimRequest(lease=one.lease, number=1, room=2)
    clock = cast(PostgresStore, store).clock.reading()
    async with held(place, TURN, *turn_args(clock, [], request)) as behind:
        limiting = asyncio.create_task(capacity(store, "default", 2))
        assert await waits(limiting, behind)

    await limiting
    assert await other.claim_ids(5) == []
