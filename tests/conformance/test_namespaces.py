"""Several yards on one place know nothing of each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Enqueued
from taskyard.store.port import Schema, Store
from taskyard.store.url import open_store
from tests.conformance.verbs import capacity, enqueued, limit, new, node
from tests.servers.urls import STORES, fresh_url, neighbour


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def yards(url: str) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(opened(url))
        other = await stack.enter_async_context(opened(neighbour(url)))
        yield one, other


@pytest.mark.spec("engine-27")
async def test_a_yard_does_not_see_the_tasks_of_its_neighbour(yards: tuple[Store, Store]) -> None:
    one, other = yards
    task = new(dedup=Dedup("key"), keys=("key",))

    assert await one.enqueue([task]) == [Enqueued(task.id)]
    assert (await other.get(task.id), (await other.counts())[State.QUEUED]) == (None, 0)
    assert await other.enqueue([task]) == [Enqueued(task.id)]

    await one.cancel(task.id, actor="ann")
    seen = await other.get(task.id)
    assert seen is not None
    assert seen.state is State.QUEUED
    assert await other.audit() == []


@pytest.mark.spec("engine-27")
async def test_room_is_counted_for_each_yard(yards: tuple[Store, Store]) -> None:
    one, other = yards
    for store in yards:
        await enqueued(store, keys=("key",))
    await capacity(one, "default", 0)
    await limit(one, "key", 0)
    await one.pause_yard(True, actor="ann")

    assert await other.key_rules() == []
    assert [lane.capacity for lane in await other.lanes()] == [None]
    assert len(await (await node(other)).claim()) == 1
    assert await one.nodes() == []
    assert await (await node(one)).refusal() == "the yard is paused"


@pytest.mark.spec("engine-27")
async def test_a_yard_is_there_when_it_was_opened(url: str) -> None:
    async with opened(url):
        pass
    other = open_store(neighbour(url))

    assert await open_store(url).exists()
    assert not await other.exists()
    schema = await other.schema()
    assert schema == Schema(0, schema.newest, current=False)
    assert schema.newest > 0


async def test_the_schema_is_current_once_a_yard_was_opened(url: str) -> None:
    store = open_store(url)
    before = await store.schema()
    async with opened(url):
        pass

    assert (before.version, before.current) == (0, False)
    assert await store.schema() == Schema(before.newest, before.newest, current=True)
