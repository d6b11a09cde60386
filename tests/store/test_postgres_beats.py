"""A turn keeps no beat waiting, and a caller's transaction keeps no turn waiting.

Interleavings are made by holding transactions open: what must not wait is simply called.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from taskyard.domain.outcome import Finished
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Clash, Dedup, Duplicate, OnFailure
from taskyard.store.port import ClaimRequest
from taskyard.store.postgres.turn import TURN, turn_args
from tests.conformance.verbs import (
    Worker,
    complete,
    enqueued,
    failed,
    finish,
    new,
    node,
    running,
    seen,
    state_of,
    succeeded,
)
from tests.store.postgres_place import Yard, connected, someone_waits, yard

HANGS = 20.0

pytestmark = pytest.mark.spec("engine-20", "engine-29")


async def claim_in(
    place: Yard, connection: asyncpg.Connection[asyncpg.Record], worker: Worker
) -> list[str]:
    """A claim on a connection of the test's, which commits when the test says so."""
    worker.number += 1
    request = ClaimRequest(lease=worker.lease, number=worker.number, room=1)
    row = await connection.fetchrow(place.here(TURN), *turn_args(0, [], request))
    assert row is not None
    return list(row["o_id"] or ())


async def test_a_beat_does_not_wait_for_a_turn() -> None:
    async with yard() as place, connected() as turning:
        store = place.store
        worker = await node(store)
        task = await running(store, worker)
        async with turning.transaction():
            await turning.execute(place.here(TURN), *turn_args(0, [succeeded(task)], None))

            news = await asyncio.to_thread(store.beat, worker.lease, timeout=HANGS)
            assert not news.lost


async def test_claims_of_one_lease_go_one_after_the_other() -> None:
    async with yard() as place, connected() as one, connected() as other:
        store = place.store
        worker = await node(store, slots=1)
        first, _ = [await enqueued(store) for _ in range(2)]
        opened = one.transaction()
        await opened.start()
        assert await claim_in(place, one, worker) == [first]
        then = asyncio.create_task(claim_in(place, other, worker))
        await someone_waits(place)
        await opened.commit()

        assert await then == []  # the one slot is taken


@pytest.mark.parametrize("verb", ["drain", "rescue"])
async def test_who_ends_a_lease_waits_for_the_turn_under_way(verb: str) -> None:
    async with yard() as place, connected() as claiming:
        store = place.store
        worker = await node(store)
        task_id = await enqueued(store)
        opened = claiming.transaction()
        await opened.start()
        assert await claim_in(place, claiming, worker) == [task_id]
        ending = asyncio.create_task(
            store.drain(worker.lease)
            if verb == "drain"
            else store.rescue([worker.lease], ended=False)
        )
        await someone_waits(place)
        await opened.commit()
        await ending

        assert (
            await worker.refusal()
            == {
                "drain": "this node is draining",
                "rescue": "this lease has ended",
            }[verb]
        )
        expected = {"drain": Reason.CLAIMED, "rescue": Reason.RESCUED}[verb]
        assert (await seen(store, task_id)).reason is expected


@pytest.mark.parametrize("idle", [True, False])
async def test_a_caller_changes_no_dependent_that_still_waits(idle: bool) -> None:
    """What it depends on ends meanwhile, and cannot wait for the caller."""
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        bad, good = await running(store, worker), await running(store, worker)
        given_up = await enqueued(store, depends_on=(bad.id,), dedup=Dedup("a"), payload="[1]")
        freed = await enqueued(
            store,
            depends_on=(good.id,),
            on_failure=OnFailure.RUN,
            dedup=Dedup("b"),
            payload="[1]",
        )
        if idle:
            await store.pause(given_up, actor="ann")
            await store.pause(freed, actor="ann")
        async with caller.transaction():
            newer = [new(dedup=Dedup(key, clash=Clash.REPLACE), payload="[2]") for key in "ab"]
            answers = await store.enqueue_in(caller, newer)
            assert answers == [Duplicate(given_up), Duplicate(freed)]
            async with asyncio.timeout(HANGS):
                await store.finish([failed(bad, retry=False), succeeded(good)])
            assert (await seen(store, given_up)).state is State.CANCELLED
            if not idle:
                task = await worker.claim_one()
                assert (task.id, task.payload) == (freed, "[1]")
                async with asyncio.timeout(HANGS):
                    assert await finish(store, failed(task)) == [Finished(task.no, State.PENDING)]

        assert (await seen(store, freed)).payload == "[1]"


async def test_a_caller_changes_a_dependent_that_waits_no_more() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        task = await running(store, await node(store))
        freed = await enqueued(store, depends_on=(task.id,), dedup=Dedup("a"))
        await complete(store, task)
        async with caller.transaction():
            newer = new(dedup=Dedup("a", clash=Clash.REPLACE), payload="[2]")
            assert await store.enqueue_in(caller, [newer]) == [Duplicate(freed, changed=True)]

        assert (await seen(store, freed)).payload == "[2]"
        assert await state_of(store, freed) == (State.QUEUED, Reason.DEPENDENCY)
