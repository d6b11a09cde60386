"""What pruned tasks took is free again: memory on Redis, pages of the file on SQLite."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest
from redis import Redis

from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.places import RedisNamespace, SqliteFile
from tests.conformance.pruning import ENDS, census, live_and_end, one, prune_all
from tests.servers.redis import shared_url


@pytest.mark.spec("lifecycle-15", "engine-30")
async def test_the_memory_of_pruned_tasks_comes_back(tmp_path: Path) -> None:
    place = RedisNamespace(tmp_path)
    store = place.view()
    await store.open()

    async def memory() -> int:
        with Redis.from_url(shared_url()) as client:
            return sum(client.memory_usage(key, samples=0) for key in await census(store, place))

    await live_and_end(store)
    await prune_all(store)
    before = await memory()
    await live_and_end(store)
    assert await memory() > before + 500 * ENDS

    await prune_all(store)

    assert await memory() < before + 500
    await store.close()


@pytest.mark.spec("lifecycle-15")
async def test_the_pages_of_pruned_tasks_are_used_again(tmp_path: Path) -> None:
    store = SqliteFile(tmp_path).view()
    assert isinstance(store, SqliteStore)
    await store.open()
    path = store.path

    async def pages() -> int:
        with closing(apsw.Connection(path)) as db:
            return one(db, "PRAGMA page_count")

    await live_and_end(store)
    empty = await pages()
    for _ in range(3):
        await live_and_end(store)
    full = await pages()
    assert full > empty

    for _ in range(5):
        await prune_all(store)
        for _ in range(3):
            await live_and_end(store)

    assert await pages() <= full
    await store.close()
