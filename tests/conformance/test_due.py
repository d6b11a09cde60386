from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.state import Reason, State
from taskyard.store.port import Promoted, Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import enqueued, node, running, seen, state_of


@pytest.mark.spec("engine-5")
async def test_nothing_pending_has_no_next_time(store: Store) -> None:
    await enqueued(store)

    assert await store.promote() == Promoted(0, None)


@pytest.mark.spec("engine-5")
async def test_a_task_is_queued_when_its_time_has_come(store: Store, time: StoreTime) -> None:
    task_id = await enqueued(store, delay=10)
    run_at = (await seen(store, task_id)).run_at
    await time.advance(9)
    assert await store.promote() == Promoted(0, run_at)
    await time.advance(2)

    assert await store.promote() == Promoted(1, None)

    assert await state_of(store, task_id) == (State.QUEUED, Reason.DUE)


@pytest.mark.spec("engine-5")
async def test_promote_tells_when_the_next_one_is_due(store: Store, time: StoreTime) -> None:
    await enqueued(store, delay=5)
    later = await enqueued(store, delay=50)
    await enqueued(store, delay=500)
    await time.advance(6)

    assert await store.promote() == Promoted(1, (await seen(store, later)).run_at)


@pytest.mark.spec("engine-5")
async def test_promote_does_no_more_at_once_than_it_is_told(store: Store, time: StoreTime) -> None:
    tasks = [await enqueued(store, delay=delay) for delay in (3, 1, 2)]
    await time.advance(4)

    first = await store.promote(limit=2)

    assert first.count == 2
    assert first.next_due == (await seen(store, tasks[0])).run_at
    assert (await seen(store, tasks[0])).state is State.PENDING
    assert (await store.promote(limit=2)).count == 1


@pytest.mark.spec("engine-5", "engine-9")
async def test_a_promoted_task_has_the_place_of_its_creation(store: Store, time: StoreTime) -> None:
    early = await enqueued(store, delay=5)
    late = await enqueued(store)
    await time.advance(6)
    await store.promote()

    assert await (await node(store)).claim_ids(10) == [early, late]


@pytest.mark.spec("engine-6", "engine-8")
async def test_waiting_tasks_past_their_deadline_fail(store: Store, time: StoreTime) -> None:
    soon = await store.now() + 10 * SECOND
    queued = await enqueued(store, deadline=soon)
    pending = await enqueued(store, deadline=soon, delay=60)
    later = await enqueued(store, deadline=soon + 60 * SECOND)
    assert await store.expire() == 0
    await time.advance(11)

    assert await store.expire() == 2

    for task_id in (queued, pending):
        kept = await seen(store, task_id)
        assert (kept.state, kept.reason) == (State.FAILED, Reason.EXPIRED)
        assert (kept.attempt, kept.charged) == (0, 0)
        assert kept.ended_at is not None
    assert (await seen(store, later)).state is State.QUEUED
    assert await store.expire() == 0


@pytest.mark.spec("engine-6")
async def test_expire_does_no_more_at_once_than_it_is_told(store: Store, time: StoreTime) -> None:
    soon = await store.now() + SECOND
    for _ in range(3):
        await enqueued(store, deadline=soon)
    await time.advance(2)

    assert [await store.expire(limit=2), await store.expire(limit=2)] == [2, 1]


@pytest.mark.spec("engine-6")
async def test_a_running_task_does_not_expire(store: Store, time: StoreTime) -> None:
    task = await running(store, await node(store), deadline=await store.now() + SECOND)
    await time.advance(2)

    assert await store.expire() == 0
    assert (await seen(store, task.id)).state is State.RUNNING


@pytest.mark.spec("engine-6")
async def test_a_task_that_waits_for_a_key_expires_too(store: Store, time: StoreTime) -> None:
    await running(store, await node(store), keys=("k",))
    waiting = await enqueued(store, keys=("k",), deadline=await store.now() + SECOND)
    await time.advance(2)

    assert await store.expire() == 1
    assert await state_of(store, waiting) == (State.FAILED, Reason.EXPIRED)
    assert [key.waiting for key in await store.keys()] == [0]


@pytest.mark.spec("engine-21")
async def test_the_clock_of_the_store_is_the_same_for_everyone(
    store: Store, elsewhere: Store, time: StoreTime
) -> None:
    before = await store.now()
    await time.advance(100)

    assert await elsewhere.now() >= before + 100 * SECOND
