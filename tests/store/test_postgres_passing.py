"""A row that somebody has locked is passed over: those behind it are found all the same.

It is locked by a caller whose transaction is open: he replaces the payload of a task that waits.
"""

from __future__ import annotations

import pytest

from taskyard.domain.task import Clash, Dedup, NewTask
from tests.conformance.verbs import complete, enqueued, ids, new, node, parked, running
from tests.store.postgres_place import connected, yard

pytestmark = pytest.mark.spec("engine-8", "engine-29")


def newer(key: str) -> NewTask:
    return new(dedup=Dedup(key, clash=Clash.REPLACE), payload="[2]")


@pytest.mark.parametrize("locked", [1, 40])
async def test_a_claim_under_the_lock_takes_what_follows(locked: int) -> None:
    """It looks at few rows at first, for the node has one slot, and all of these are locked."""
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store, slots=1)
        heads = [f"d{n}" for n in range(locked)]
        await store.enqueue([new(keys=(key,), dedup=Dedup(key)) for key in heads])
        behind = await enqueued(store, keys=("k",))
        async with caller.transaction():
            await store.enqueue_in(caller, [newer(key) for key in heads])

            claim = await worker.ask(1)
            assert ids(claim.tasks) == [behind]


async def test_a_claim_under_the_lock_takes_what_follows_a_waiter() -> None:
    """The head would be parked: its key is full."""
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store, slots=3)
        head = await enqueued(store, keys=("k",), dedup=Dedup("d"))
        await running(store, worker, keys=("k",), priority=1)
        behind = await enqueued(store, keys=("other",))
        async with caller.transaction():
            await store.enqueue_in(caller, [newer("d")])

            assert ids((await worker.ask(1)).tasks) == [behind]
        assert await worker.claim_ids(1) == []
        assert await parked(store) == {head: "k"}


async def test_a_claim_that_finds_only_locked_rows_says_that_there_is_no_more() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store, slots=1)
        heads = [f"d{n}" for n in range(3)]
        await store.enqueue([new(keys=(key,), dedup=Dedup(key)) for key in heads])
        async with caller.transaction():
            await store.enqueue_in(caller, [newer(key) for key in heads])

            claim = await worker.ask(1)
            assert (claim.tasks, claim.more) == ([], False)


@pytest.mark.parametrize("commits", [True, False])
async def test_who_is_parked_behind_a_locked_waiter_is_woken(commits: bool) -> None:
    """And the locked one is looked at again, for it comes first."""
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        held = await running(store, worker, keys=("k",))
        first = await enqueued(store, dedup=Dedup("d"), keys=("k",))
        second = await enqueued(store, keys=("k",))
        assert set(await parked(store)) == {first, second}
        opened = caller.transaction()
        await opened.start()
        await store.enqueue_in(caller, [newer("d")])
        await complete(store, held)
        assert await parked(store) == {first: "k"}
        await (opened.commit() if commits else opened.rollback())
        await store.promote()

        assert await worker.claim_ids(10) == [first]
