"""What SQLite keeps of the rates of keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.domain.rate import Rate
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.places import SqliteFile
from tests.conformance.verbs import capacity, enqueued, node, running


@pytest.fixture
def place(tmp_path: Path) -> SqliteFile:
    return SqliteFile(tmp_path)


@pytest.fixture
async def store(place: SqliteFile) -> AsyncIterator[SqliteStore]:
    view = place.view()
    assert isinstance(view, SqliteStore)
    yield view
    await view.close()


@pytest.mark.spec("engine-10", "engine-3")
async def test_a_claim_that_passes_by_forgets_nobody_who_waits_for_a_token(
    store: SqliteStore, place: SqliteFile
) -> None:
    await store.set_key_rule("k", 9, rate=Rate(1, 10), actor="ann")
    worker = await node(store, kinds=("work", "mail"), lease_seconds=1e6)
    await running(store, worker, keys=("k",))
    parked = await enqueued(store, lane="one", keys=("k",))
    await place.advance(10)  # there is a token now, and nobody has been told
    await enqueued(store, "mail", lane="two", keys=("k",))
    first = await enqueued(store, lane="two", priority=1)
    assert await worker.claim_ids(1) == [first]  # it has looked at the other one too
    await capacity(store, "two", 1)

    await store.promote()

    assert await worker.claim_ids(10) == [parked]


@pytest.mark.spec("engine-3", "engine-12")
async def test_buckets_that_are_full_again_go(store: SqliteStore, place: SqliteFile) -> None:
    await store.set_key_rule("host:*", 9, rate=Rate(1, 10), actor="ann")
    worker = await node(store, lease_seconds=1e6, slots=100)
    for number in range(20):
        await running(store, worker, keys=(f"host:{number}",))
    assert await buckets(store) == 20
    await place.advance(5)
    await store.promote()
    assert await buckets(store) == 20
    await place.advance(5)

    assert (await store.promote()).count == 20

    assert await buckets(store) == 0
    assert (await store.promote()).next_due is None


async def buckets(store: SqliteStore) -> int:
    count: int = await store._read(lambda tx: tx.value("SELECT count(*) FROM taskyard_buckets"))
    return count
