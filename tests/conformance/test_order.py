"""Condition (f) of a claim: the first such task in the lane's order; and how lanes share a node."""

from __future__ import annotations

from collections import Counter

import pytest

from taskyard.domain.errors import IllegalTransition, InvalidOption, NotFound
from taskyard.domain.state import State
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    capacity,
    complete,
    enqueued,
    failed,
    finish,
    ids,
    limit,
    node,
    released,
    running,
    seen,
)


@pytest.mark.spec("engine-8", "engine-9", "lifecycle-10")
async def test_lower_priority_numbers_go_first(store: Store) -> None:
    worker = await node(store)
    made = {p: await enqueued(store, priority=p) for p in (5, 1, 10, 3)}

    assert await worker.claim_ids(10) == [made[1], made[3], made[5], made[10]]


@pytest.mark.spec("engine-9", "lifecycle-10")
async def test_equal_priority_goes_in_order_of_creation(store: Store, elsewhere: Store) -> None:
    worker = await node(store)
    waiting = [await enqueued(place) for place in (store, elsewhere, store, elsewhere)]

    one_by_one = [(await worker.claim_one()).id for _ in waiting]

    assert one_by_one == waiting


@pytest.mark.spec("engine-9")
async def test_the_order_holds_over_all_kinds_of_a_lane(store: Store) -> None:
    worker = await node(store, kinds=("mail", "scan"))
    last = await enqueued(store, "mail", priority=7)
    first = await enqueued(store, "scan", priority=2)
    second = await enqueued(store, "mail", priority=4)

    assert await worker.claim_ids(10) == [first, second, last]


@pytest.mark.spec("engine-9")
async def test_the_order_holds_over_all_kinds_when_the_lane_is_narrow(store: Store) -> None:
    worker = await node(store, kinds=("mail", "scan"))
    await capacity(store, "default", 1)
    await enqueued(store, "mail", priority=7)
    first = await enqueued(store, "scan", priority=2)

    assert await worker.claim_ids(10) == [first]


@pytest.mark.spec("engine-9")
async def test_what_is_blocked_by_a_key_is_passed_over(store: Store) -> None:
    worker = await node(store)
    await running(store, worker, keys=("k",))
    await enqueued(store, priority=1, keys=("k",))
    behind = await enqueued(store, priority=9)

    assert await worker.claim_ids(10) == [behind]


@pytest.mark.spec("engine-9")
async def test_what_no_node_serves_is_passed_over(store: Store) -> None:
    worker = await node(store)
    for _ in range(20):
        await enqueued(store, "unknown", priority=1)
    behind = await enqueued(store, priority=9)

    assert await worker.claim_ids(10) == [behind]


@pytest.mark.spec("engine-9", "engine-12")
async def test_a_long_row_of_blocked_tasks_does_not_hide_the_free_one(store: Store) -> None:
    worker = await node(store)
    first = [await enqueued(store, priority=1, keys=("k",)) for _ in range(60)]
    behind = await enqueued(store, priority=9)

    assert await worker.claim_ids(2) == [first[0], behind]


@pytest.mark.spec("engine-9")
async def test_a_passed_over_task_keeps_its_place(store: Store) -> None:
    worker = await node(store, slots=2)
    held = await running(store, worker, keys=("k",))
    blocked = await enqueued(store, keys=("k",))
    passing = await enqueued(store)
    last = await enqueued(store)
    assert await worker.claim_ids(10) == [passing]

    await complete(store, held)

    assert await worker.claim_ids(10) == [blocked]
    assert (await seen(store, last)).state is State.QUEUED


@pytest.mark.spec("engine-8", "engine-9")
async def test_the_waiter_behind_one_that_is_blocked_elsewhere_goes_before_what_follows(
    store: Store,
) -> None:
    worker = await node(store)
    a, b = await running(store, worker, keys=("a",)), await running(store, worker, keys=("b",))
    await enqueued(store, priority=1, keys=("a", "b"))
    waiting = await enqueued(store, priority=2, keys=("a",))
    await enqueued(store, priority=3)

    await complete(store, a)  # the first waiter for a still lacks b: the second is next

    assert await worker.claim_ids(1) == [waiting]
    assert b.attempt == 1


@pytest.mark.spec("engine-8", "engine-9")
async def test_the_waiter_behind_one_that_is_blocked_elsewhere_gets_the_key_before_a_later_one(
    store: Store,
) -> None:
    worker = await node(store)
    a, _ = await running(store, worker, keys=("a",)), await running(store, worker, keys=("b",))
    await enqueued(store, priority=1, keys=("a", "b"))
    waiting = await enqueued(store, priority=2, keys=("a",))
    await complete(store, a)
    await enqueued(store, priority=9, keys=("a",))

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-8", "engine-9")
async def test_waiters_for_a_key_run_in_the_order_of_their_lane(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    made = {p: await enqueued(store, priority=p, keys=("k",)) for p in (5, 9, 1, 3)}
    order = []
    while held.id not in order:
        await complete(store, held)
        order.append(held.id)
        held = next(iter(await worker.claim(10)), held)

    assert order[1:] == [made[p] for p in (1, 3, 5, 9)]


@pytest.mark.spec("engine-7")
async def test_a_retry_goes_to_the_back_of_its_order(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    waiting = await enqueued(store)
    await finish(store, failed(task))

    assert await worker.claim_ids(10) == [waiting, task.id]
    assert (await seen(store, task.id)).seq > (await seen(store, waiting)).seq


@pytest.mark.spec("engine-7")
async def test_a_released_task_keeps_its_place(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    seq = (await seen(store, task.id)).seq
    waiting = await enqueued(store)
    await finish(store, released(task))

    assert (await seen(store, task.id)).seq == seq
    assert await worker.claim_ids(10) == [task.id, waiting]


@pytest.mark.spec("engine-7", "engine-20")
async def test_a_rescued_task_keeps_its_place(store: Store) -> None:
    dead, alive = await node(store, "node-a"), await node(store, "node-b")
    task = await running(store, dead)
    waiting = await enqueued(store)
    await store.rescue([dead.lease])

    assert await alive.claim_ids(10) == [task.id, waiting]


@pytest.mark.spec("engine-9", "lifecycle-4")
async def test_prioritize_changes_the_real_order(store: Store) -> None:
    worker = await node(store)
    first, second, third = [await enqueued(store) for _ in range(3)]

    await store.prioritize(third, 1, actor="ann")
    await store.prioritize(first, 10, actor="ann")

    assert await worker.claim_ids(10) == [third, second, first]
    assert (await seen(store, third)).priority == 1


@pytest.mark.spec("engine-9", "lifecycle-4")
async def test_prioritize_changes_the_order_of_waiters_for_a_key(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    first, second = [await enqueued(store, keys=("k",)) for _ in range(2)]

    await store.prioritize(second, 1, actor="ann")
    await complete(store, held)

    assert await worker.claim_ids(10) == [second]
    assert (await seen(store, first)).state is State.QUEUED


@pytest.mark.spec("lifecycle-4")
async def test_a_task_that_waits_for_its_time_can_be_prioritized(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store)
    early = await enqueued(store, delay=5)
    moved = await enqueued(store, delay=10)
    await store.prioritize(moved, 1, actor="ann")
    await time.advance(11)
    await store.promote()

    assert await worker.claim_ids(10) == [moved, early]


@pytest.mark.spec("lifecycle-4", "engine-6")
async def test_a_task_that_does_not_wait_cannot_be_prioritized(store: Store) -> None:
    task = await running(store, await node(store))

    with pytest.raises(IllegalTransition, match="running"):
        await store.prioritize(task.id, 1, actor="ann")
    await complete(store, task)
    with pytest.raises(IllegalTransition, match="completed"):
        await store.prioritize(task.id, 1, actor="ann")

    assert (await seen(store, task.id)).priority == 5


@pytest.mark.spec("lifecycle-10")
@pytest.mark.parametrize("priority", [0, 11, -1])
async def test_priority_is_from_1_to_10(store: Store, priority: int) -> None:
    task_id = await enqueued(store)

    with pytest.raises(InvalidOption, match="from 1"):
        await store.prioritize(task_id, priority, actor="ann")

    assert (await seen(store, task_id)).priority == 5


@pytest.mark.spec("lifecycle-4")
async def test_a_task_nobody_knows_cannot_be_prioritized(store: Store) -> None:
    with pytest.raises(NotFound, match="nobody"):
        await store.prioritize("nobody", 1, actor="ann")


@pytest.mark.spec("engine-9", "lifecycle-1")
async def test_a_long_lane_does_not_starve_a_short_one(store: Store) -> None:
    worker = await node(store, slots=4)
    for _ in range(50):
        await enqueued(store, lane="long", priority=1)
    short = [await enqueued(store, lane="short", priority=9) for _ in range(2)]

    assert set(short) <= set(await worker.claim_ids(4))


@pytest.mark.spec("engine-9", "lifecycle-1")
async def test_lanes_take_turns_on_a_node_with_one_slot(store: Store) -> None:
    worker = await node(store, slots=1)
    for lane in ("one", "two", "three"):
        for _ in range(10):
            await enqueued(store, lane=lane)
    started: Counter[str] = Counter()
    for _ in range(9):
        task = await worker.claim_one()
        started[task.lane] += 1
        await complete(store, task)

    assert started == {"one": 3, "two": 3, "three": 3}


@pytest.mark.spec("engine-9", "lifecycle-1")
async def test_a_full_lane_leaves_its_turn_to_the_others(store: Store) -> None:
    worker = await node(store, slots=6)
    await capacity(store, "narrow", 1)
    narrow = [await enqueued(store, lane="narrow") for _ in range(9)]
    wide = [await enqueued(store, lane="wide") for _ in range(9)]

    claimed = await worker.claim_ids(6)

    assert sorted(claimed) == sorted([narrow[0], *wide[:5]])


@pytest.mark.spec("engine-9", "engine-3")
async def test_a_key_with_room_for_more_is_filled_in_order(store: Store) -> None:
    worker = await node(store)
    await limit(store, "k", 2)
    for _ in range(2):
        await enqueued(store, keys=("k",))
    held = await worker.claim(2)
    waiting = [await enqueued(store, keys=("k",)) for _ in range(4)]
    await complete(store, *held)

    assert await worker.claim_ids(10) == waiting[:2]
    assert ids(held) != waiting[:2]


@pytest.mark.spec("engine-8", "engine-9")
async def test_what_is_behind_a_blocked_head_still_goes_before_later_tasks_of_other_kinds(
    store: Store,
) -> None:
    worker = await node(store, kinds=("mail", "scan"))
    await running(store, worker, kind="mail", keys=("k",))
    await limit(store, "k", 5)
    blocked = [await enqueued(store, "mail", keys=("k",), priority=1) for _ in range(6)]
    await limit(store, "k", 1)
    behind = await enqueued(store, "mail", priority=5)
    later = await enqueued(store, "scan", priority=9)

    assert await worker.claim_ids(1) == [behind]
    assert await worker.claim_ids(1) == [later]
    assert not set(blocked) & set(await worker.claim_ids(5))
