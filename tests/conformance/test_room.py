"""Room is given back once, by the step that ends the attempt, and a waiter is woken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.outcome import Verdict
from taskyard.domain.state import State
from taskyard.domain.task import Claimed
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    LEASE_SECONDS,
    capacity,
    complete,
    enqueued,
    failed,
    finish,
    limit,
    node,
    pause,
    released,
    running,
    seen,
    snoozed,
    stopped,
    succeeded,
)

ENDINGS: dict[str, Callable[[Claimed], Verdict]] = {
    "succeeded": succeeded,
    "retry": lambda task: failed(task, delay=60),
    "failed": lambda task: failed(task, retry=False),
    "snoozed": lambda task: snoozed(task, 60),
    "stopped": stopped,
}


@pytest.mark.spec("engine-10")
@pytest.mark.parametrize("ending", ENDINGS)
async def test_every_ending_gives_key_and_lane_back(store: Store, ending: str) -> None:
    worker = await node(store, slots=1)
    await capacity(store, "narrow", 1)
    held = await running(store, worker, lane="narrow", keys=("a", "b"))
    waiting = await enqueued(store, lane="narrow", keys=("b", "a"))

    await finish(store, ENDINGS[ending](held))

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10", "engine-7")
async def test_a_released_task_is_before_those_who_waited_for_its_key(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    waiting = await enqueued(store, keys=("k",))
    await finish(store, released(held))

    [again] = await worker.claim(10)

    assert again.id == held.id
    await complete(store, again)
    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10")
async def test_a_more_urgent_waiter_runs_before_a_released_task(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    urgent = await enqueued(store, keys=("k",), priority=1)
    await finish(store, released(held))

    assert await worker.claim_ids(10) == [urgent]


@pytest.mark.spec("engine-10", "engine-20")
async def test_a_rescue_gives_the_room_back(store: Store, time: StoreTime) -> None:
    dead = await node(store, "node-a")
    await capacity(store, "narrow", 1)
    held = await running(store, dead, lane="narrow", keys=("k",), priority=9)
    urgent = await enqueued(store, lane="narrow", keys=("k",), priority=1)
    await time.advance(LEASE_SECONDS + 1)
    alive = await node(store, "node-b")
    assert await alive.claim(10) == []

    await store.rescue()

    [first] = await alive.claim(10)
    assert first.id == urgent
    await complete(store, first)
    assert await alive.claim_ids(10) == [held.id]


@pytest.mark.spec("engine-10", "engine-24")
async def test_a_retired_node_gives_the_room_back(store: Store) -> None:
    leaving, staying = await node(store, "node-a"), await node(store, "node-b")
    held = await running(store, leaving, keys=("k",))
    waiting = await enqueued(store, keys=("k",))

    await store.retire(leaving.lease)

    [again] = await staying.claim(10)
    assert again.id == held.id
    await complete(store, again)
    assert await staying.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10")
async def test_room_is_given_back_once_however_often_the_end_is_told(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    waiting = [await enqueued(store, keys=("k",)) for _ in range(3)]

    await finish(store, succeeded(held), succeeded(held))
    await finish(store, succeeded(held))
    assert await worker.claim_ids(10) == waiting[:1]
    await finish(store, succeeded(held))

    assert await worker.claim(10) == []
    assert [key.holders for key in await store.keys()] == [(waiting[0],)]


@pytest.mark.spec("engine-10")
async def test_asking_a_running_task_to_stop_frees_nothing_yet(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    waiting = await enqueued(store, keys=("k",))
    await store.cancel(held.id, actor="ann")
    assert await worker.claim(10) == []

    await finish(store, stopped(held))

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10")
async def test_waiters_in_every_lane_get_their_chance(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    await capacity(store, "full", 0)
    await pause(store, "paused")
    await enqueued(store, lane="full", keys=("k",), priority=1)
    await enqueued(store, lane="paused", keys=("k",), priority=1)
    waiting = await enqueued(store, lane="open", keys=("k",), priority=9)

    await complete(store, held)

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10")
async def test_a_waiter_of_a_kind_nobody_serves_does_not_block_the_others(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    await enqueued(store, "unserved", keys=("k",), priority=1)
    waiting = await enqueued(store, keys=("k",), priority=9)

    await complete(store, held)

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10")
async def test_a_waiter_another_node_must_run_does_not_block_the_others(store: Store) -> None:
    worker = await node(store, "plain")
    held = await running(store, worker, keys=("k",))
    await node(store, "able", capabilities=("gpu",))
    await enqueued(store, requires=("gpu",), keys=("k",), priority=1)
    waiting = await enqueued(store, keys=("k",), priority=9)

    await complete(store, held)

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-10")
async def test_when_the_woken_one_is_cancelled_the_next_one_is_woken(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    first, second, third = [await enqueued(store, keys=("k",)) for _ in range(3)]
    await complete(store, held)

    await store.cancel(first, actor="ann")
    await store.cancel(second, actor="ann")

    assert await worker.claim_ids(10) == [third]


@pytest.mark.spec("engine-10")
async def test_when_one_that_still_waits_is_cancelled_the_others_wait_on(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    first, second = [await enqueued(store, keys=("k",)) for _ in range(2)]
    await store.cancel(first, actor="ann")
    assert await worker.claim(10) == []

    await complete(store, held)

    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-10")
@pytest.mark.parametrize("by", ["expire", "claim"])
async def test_when_the_woken_one_expires_the_next_one_is_woken(
    store: Store, time: StoreTime, by: str
) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    soon = await store.now() + SECOND
    late = [await enqueued(store, keys=("k",), deadline=soon) for _ in range(3)]
    last = await enqueued(store, keys=("k",))
    await complete(store, held)
    await time.advance(2)

    if by == "expire":
        assert await store.expire() == 3

    assert await worker.claim_ids(10) == [last]
    await store.expire()
    assert {(await seen(store, task)).state for task in late} == {State.FAILED}


@pytest.mark.spec("engine-10")
async def test_when_the_woken_one_is_moved_back_the_next_one_is_woken(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    first, second = [await enqueued(store, keys=("k",)) for _ in range(2)]
    await complete(store, held)

    await store.prioritize(first, 10, actor="ann")

    [task] = await worker.claim(10)
    assert task.id == second
    await complete(store, task)
    assert await worker.claim_ids(10) == [first]


@pytest.mark.spec("engine-10")
async def test_when_the_woken_one_still_lacks_another_key_the_next_one_is_woken(
    store: Store,
) -> None:
    worker = await node(store)
    a, b = await running(store, worker, keys=("a",)), await running(store, worker, keys=("b",))
    both = await enqueued(store, keys=("a", "b"))
    single = await enqueued(store, keys=("a",))

    await complete(store, a)
    [task] = await worker.claim(10)
    assert task.id == single
    await complete(store, b)
    assert await worker.claim(10) == []
    await complete(store, task)
    assert await worker.claim_ids(10) == [both]


@pytest.mark.spec("engine-10")
async def test_a_chain_of_waiters_for_several_keys_is_worked_off(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("a", "b", "c"))
    waiting = [
        await enqueued(store, keys=keys)
        for keys in (("a", "b"), ("b", "c"), ("c", "a"), ("a",), ("b",), ("c",))
    ]
    await complete(store, held)
    order = []
    while tasks := await worker.claim(10):
        order.append({task.id for task in tasks})
        await complete(store, *tasks)

    assert set().union(*order) == set(waiting)
    assert order[0] == {waiting[0], waiting[5]}


@pytest.mark.spec("engine-10")
async def test_when_a_woken_one_with_several_keys_is_cancelled_all_its_keys_find_waiters(
    store: Store,
) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("a", "b"))
    both = await enqueued(store, keys=("a", "b"))
    a, b = await enqueued(store, keys=("a",)), await enqueued(store, keys=("b",))
    await complete(store, held)

    await store.cancel(both, actor="ann")

    assert await worker.claim_ids(10) == [a, b]


@pytest.mark.spec("engine-10")
async def test_several_places_that_come_free_together_wake_as_many(store: Store) -> None:
    worker = await node(store)
    await limit(store, "k", 3)
    for _ in range(3):
        await enqueued(store, keys=("k",))
    held = await worker.claim(3)
    waiting = [await enqueued(store, keys=("k",)) for _ in range(5)]

    await complete(store, *held)

    assert await worker.claim_ids(10) == waiting[:3]


@pytest.mark.spec("engine-10")
async def test_places_that_come_free_before_anyone_looks_wake_as_many(store: Store) -> None:
    worker = await node(store)
    await limit(store, "k", 3)
    for _ in range(3):
        await enqueued(store, keys=("k",))
    held = await worker.claim(3)
    waiting = [await enqueued(store, keys=("k",)) for _ in range(5)]
    for task in held:
        await complete(store, task)
    await store.cancel(waiting[0], actor="ann")
    await store.cancel(waiting[1], actor="ann")

    assert await worker.claim_ids(10) == waiting[2:]


@pytest.mark.spec("engine-10", "engine-6")
async def test_a_new_life_waits_for_its_key_like_everyone(store: Store) -> None:
    worker = await node(store)
    gone = await enqueued(store, keys=("k",))
    await store.cancel(gone, actor="ann")
    held = await running(store, worker, keys=("k",))
    await store.retry(gone, actor="ann")
    assert await worker.claim(10) == []

    await complete(store, held)

    assert await worker.claim_ids(10) == [gone]


@pytest.mark.spec("engine-10")
async def test_a_retry_waits_for_its_key_when_its_time_has_come(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store)
    first = await running(store, worker, keys=("k",))
    second = await enqueued(store, keys=("k",))
    await finish(store, failed(first, delay=5))
    held = await worker.claim_one()
    assert held.id == second
    await time.advance(6)
    await store.promote()
    assert await worker.claim(10) == []

    await complete(store, held)

    assert await worker.claim_ids(10) == [first.id]


@pytest.mark.spec("engine-10")
async def test_room_made_by_one_process_is_found_by_another(store: Store, elsewhere: Store) -> None:
    one, other = await node(store, "node-a"), await node(elsewhere, "node-b")
    held = await running(store, one, keys=("k",))
    waiting = await enqueued(store, keys=("k",))
    assert await other.claim(10) == []

    await complete(store, held)

    assert await other.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-3", "engine-10")
async def test_a_limit_raised_far_lets_as_many_go(store: Store) -> None:
    worker = await node(store, slots=100)
    await running(store, worker, keys=("k",))
    waiting = [await enqueued(store, keys=("k",)) for _ in range(40)]

    await limit(store, "k", 31)

    assert await worker.claim_ids(99) == waiting[:30]
