"""Conditions (a), (c) and (d) of a claim: the task, its lane and its keys."""

from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.state import Reason, State
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
    new,
    node,
    pause,
    running,
    seen,
    state_of,
)


@pytest.mark.spec("engine-8", "engine-10")
async def test_a_claim_starts_a_new_attempt(store: Store) -> None:
    worker = await node(store, "node-a")
    task_id = await enqueued(store, payload='"p"', timeout=9, max_charged=2)
    before = await store.now()

    claimed = await worker.claim_one()

    assert (claimed.id, claimed.kind, claimed.lane, claimed.payload) == (
        task_id,
        "work",
        "default",
        '"p"',
    )
    assert (claimed.attempt, claimed.charged, claimed.max_charged) == (1, 0, 2)
    assert claimed.timeout == 9
    kept = await seen(store, task_id)
    assert (kept.state, kept.reason) == (State.RUNNING, Reason.CLAIMED)
    assert (kept.no, kept.attempt, kept.node) == (claimed.no, 1, "node-a")
    assert kept.started_at is not None
    assert kept.started_at >= before


@pytest.mark.spec("engine-8")
async def test_nothing_waiting_is_an_empty_claim(store: Store) -> None:
    claim = await (await node(store)).ask(10)

    assert (claim.tasks, claim.ahead, claim.more, claim.refused) == ([], frozenset(), False, None)


@pytest.mark.spec("engine-8")
async def test_a_running_task_is_not_claimed_again(store: Store) -> None:
    await running(store, await node(store, "node-a"))

    assert await (await node(store, "node-b")).claim(10) == []


@pytest.mark.spec("engine-8")
async def test_a_task_that_waits_for_its_time_is_not_claimed(store: Store) -> None:
    await enqueued(store, delay=60)

    assert await (await node(store)).claim(10) == []


@pytest.mark.spec("engine-8")
async def test_a_cancelled_task_is_not_claimed(store: Store) -> None:
    await store.cancel(await enqueued(store), actor="ann")

    assert await (await node(store)).claim(10) == []


@pytest.mark.spec("engine-8")
async def test_a_task_that_has_ended_is_not_claimed(store: Store) -> None:
    worker = await node(store)
    await complete(store, await running(store, worker))
    await finish(store, failed(await running(store, worker), retry=False))

    assert await worker.claim(10) == []


@pytest.mark.spec("engine-8")
async def test_a_task_is_claimed_before_its_deadline(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task_id = await enqueued(store, deadline=await store.now() + 10 * SECOND)
    await time.advance(9)

    assert await worker.claim_ids() == [task_id]


@pytest.mark.spec("engine-8")
async def test_a_task_past_its_deadline_fails_instead(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    late = await enqueued(store, priority=1, deadline=await store.now() + 10 * SECOND)
    fine = await enqueued(store, priority=9)
    await time.advance(11)

    assert await worker.claim_ids() == [fine]

    assert await state_of(store, late) in {
        (State.FAILED, Reason.EXPIRED),
        (State.QUEUED, Reason.CREATED),
    }
    await store.expire()
    assert await state_of(store, late) == (State.FAILED, Reason.EXPIRED)


@pytest.mark.spec("engine-8", "lifecycle-2")
async def test_a_paused_lane_starts_nothing(store: Store) -> None:
    worker = await node(store)
    await pause(store, "slow")
    await enqueued(store, lane="slow")
    other = await enqueued(store, lane="fast")

    assert await worker.claim_ids(10) == [other]


@pytest.mark.spec("engine-8", "lifecycle-2")
async def test_what_runs_in_a_lane_that_is_paused_goes_on(store: Store) -> None:
    task = await running(store, await node(store), lane="slow")
    await pause(store, "slow")

    await complete(store, task)


@pytest.mark.spec("engine-8", "lifecycle-2")
async def test_a_resumed_lane_goes_on(store: Store) -> None:
    worker = await node(store)
    await pause(store, "slow")
    task_id = await enqueued(store, lane="slow")
    assert await worker.claim(10) == []

    await pause(store, "slow", paused=False)

    assert await worker.claim_ids() == [task_id]


@pytest.mark.spec("engine-8", "lifecycle-2")
async def test_a_paused_yard_starts_nothing_in_any_lane(store: Store) -> None:
    worker = await node(store)
    await store.pause_yard(True, actor="ann")
    waiting = [await enqueued(store, lane=lane) for lane in ("one", "two")]

    assert await worker.refusal() == "the yard is paused"

    await store.pause_yard(False, actor="ann")
    assert set(await worker.claim_ids(10)) == set(waiting)


@pytest.mark.spec("engine-8", "engine-3", "lifecycle-1")
async def test_a_lane_starts_no_more_than_its_capacity_over_all_nodes(store: Store) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    await capacity(store, "slow", 3)
    waiting = [await enqueued(store, lane="slow") for _ in range(5)]

    assert await one.claim_ids(2) == waiting[:2]
    assert await other.claim_ids(10) == waiting[2:3]
    assert await one.claim(10) == []


@pytest.mark.spec("engine-8", "engine-3")
async def test_a_lane_without_capacity_is_bounded_by_the_slots_alone(store: Store) -> None:
    worker = await node(store, slots=7)
    for _ in range(9):
        await enqueued(store)

    assert len(await worker.claim(100)) == 7


@pytest.mark.spec("engine-8", "engine-3")
async def test_capacity_0_starts_nothing(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "shut", 0)
    await enqueued(store, lane="shut")

    assert await worker.claim(10) == []


@pytest.mark.spec("engine-8", "engine-10")
async def test_an_ended_attempt_makes_room_in_its_lane(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "slow", 1)
    first = await running(store, worker, lane="slow")
    second = await enqueued(store, lane="slow")
    assert await worker.claim(10) == []

    await complete(store, first)

    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-8", "lifecycle-3")
async def test_raising_a_capacity_starts_waiting_tasks(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "slow", 1)
    waiting = [await enqueued(store, lane="slow") for _ in range(4)]
    assert await worker.claim_ids(10) == waiting[:1]

    await capacity(store, "slow", 3)
    assert await worker.claim_ids(10) == waiting[1:3]

    await capacity(store, "slow", None)
    assert await worker.claim_ids(10) == waiting[3:]


@pytest.mark.spec("engine-8", "lifecycle-3")
async def test_lowering_a_capacity_kills_nothing_and_starts_nothing(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "slow", 3)
    for _ in range(3):
        await enqueued(store, lane="slow")
    first, second, third = await worker.claim(3)
    last = await enqueued(store, lane="slow")

    await capacity(store, "slow", 1)
    assert (await store.counts())[State.RUNNING] == 3
    await complete(store, first)
    assert await worker.claim(10) == []
    await complete(store, second)
    assert await worker.claim(10) == []
    await complete(store, third)
    assert await worker.claim_ids(10) == [last]


@pytest.mark.spec("engine-8", "lifecycle-5")
async def test_a_key_is_held_by_one_task_at_a_time(store: Store) -> None:
    worker = await node(store)
    first = await enqueued(store, keys=("sub:1",))
    second = await enqueued(store, keys=("sub:1",))

    [held] = await worker.claim(10)
    assert held.id == first
    await complete(store, held)

    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-8", "lifecycle-5")
async def test_a_key_holds_across_lanes_and_nodes(store: Store, elsewhere: Store) -> None:
    one, other = await node(store, "node-a"), await node(elsewhere, "node-b")
    held = await running(store, one, lane="one", keys=("sub:1",))
    waiting = await enqueued(elsewhere, lane="two", keys=("sub:1",))
    assert await other.claim(10) == []

    await complete(store, held)

    assert await other.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-8", "engine-3", "lifecycle-14")
async def test_a_key_with_limit_n_is_held_by_n(store: Store) -> None:
    worker = await node(store)
    await limit(store, "disk", 2)
    waiting = [await enqueued(store, keys=("disk",)) for _ in range(4)]

    first, second = await worker.claim(10)
    assert [first.id, second.id] == waiting[:2]
    await complete(store, second)

    assert await worker.claim_ids(10) == waiting[2:3]


@pytest.mark.spec("engine-8", "engine-3")
async def test_a_key_with_limit_0_is_open_to_nobody(store: Store) -> None:
    worker = await node(store)
    await limit(store, "closed", 0)
    before = await enqueued(store, keys=("closed",))
    assert await worker.claim(10) == []
    after = await enqueued(store, keys=("closed",))
    assert await worker.claim(10) == []

    await limit(store, "closed", 2)

    assert await worker.claim_ids(10) == [before, after]


@pytest.mark.spec("engine-8", "engine-3")
@pytest.mark.parametrize("looked_at", [False, True])
async def test_raising_a_limit_lets_waiters_run(store: Store, looked_at: bool) -> None:
    worker = await node(store)
    waiting = [await enqueued(store, keys=("disk",)) for _ in range(5)]
    assert await worker.claim_ids(1) == waiting[:1]
    if looked_at:
        assert await worker.claim(10) == []

    await limit(store, "disk", 3)

    assert await worker.claim_ids(10) == waiting[1:3]


@pytest.mark.spec("engine-8", "engine-3")
async def test_lowering_a_limit_kills_nothing_and_starts_nothing(store: Store) -> None:
    worker = await node(store)
    await limit(store, "disk", 3)
    waiting = [await enqueued(store, keys=("disk",)) for _ in range(5)]
    first, second, third = await worker.claim(10)

    await limit(store, "disk", 1)
    await complete(store, first)
    assert await worker.claim(10) == []
    await complete(store, second)
    assert await worker.claim(10) == []
    await complete(store, third)

    assert await worker.claim_ids(10) == waiting[3:4]


@pytest.mark.spec("engine-8", "engine-3")
async def test_a_limit_raised_to_less_than_what_runs_starts_nothing(store: Store) -> None:
    worker = await node(store)
    await limit(store, "disk", 3)
    waiting = [await enqueued(store, keys=("disk",)) for _ in range(5)]
    first, second, third = await worker.claim(10)
    await limit(store, "disk", 1)
    await limit(store, "disk", 2)
    assert await worker.claim(10) == []

    await complete(store, first)
    assert await worker.claim(10) == []
    await complete(store, second)
    assert await worker.claim_ids(10) == waiting[3:4]
    await complete(store, third)
    assert await worker.claim_ids(10) == waiting[4:]


@pytest.mark.spec("engine-3")
async def test_removing_a_rule_brings_the_limit_back_to_1(store: Store) -> None:
    worker = await node(store)
    await limit(store, "closed", 0)
    waiting = [await enqueued(store, keys=("closed",)) for _ in range(2)]
    assert await worker.claim(10) == []

    await limit(store, "closed", None)

    assert await worker.claim_ids(10) == waiting[:1]
    assert await store.key_rules() == []


@pytest.mark.spec("engine-3")
async def test_a_prefix_rule_gives_each_key_its_own_room(store: Store) -> None:
    worker = await node(store)
    await limit(store, "host:*", 2)
    a = [await enqueued(store, keys=("host:a",)) for _ in range(3)]
    b = [await enqueued(store, keys=("host:b",)) for _ in range(3)]
    c = [await enqueued(store, keys=("sub:a",)) for _ in range(2)]

    assert set(await worker.claim_ids(10)) == {*a[:2], *b[:2], c[0]}


@pytest.mark.spec("engine-3")
async def test_the_exact_rule_wins_then_the_longest_prefix(store: Store) -> None:
    worker = await node(store, slots=20)
    await limit(store, "host:*", 1)
    await limit(store, "host:eu:*", 2)
    await limit(store, "host:eu:big", 3)
    names = ("host:us", "host:eu:small", "host:eu:big")
    for name in names:
        for _ in range(4):
            await enqueued(store, keys=(name,))

    await worker.claim(20)

    held = {key.name: (len(key.holders), key.limit) for key in await store.keys()}
    assert held == {"host:us": (1, 1), "host:eu:small": (2, 2), "host:eu:big": (3, 3)}


@pytest.mark.spec("engine-3")
async def test_a_raised_prefix_rule_wakes_the_waiters_of_each_of_its_keys(store: Store) -> None:
    worker = await node(store)
    names = ("host:a", "host:b", "host:c")
    first = [await enqueued(store, keys=(name,)) for name in names]
    second = [await enqueued(store, keys=(name,)) for name in names]
    assert set(await worker.claim_ids(10)) == set(first)

    await limit(store, "host:*", 2)

    assert set(await worker.claim_ids(10)) == set(second)


@pytest.mark.spec("engine-3")
async def test_dropping_an_exact_rule_uncovers_a_wider_prefix_rule(store: Store) -> None:
    worker = await node(store)
    await limit(store, "host:*", 2)
    await limit(store, "host:a", 0)
    waiting = [await enqueued(store, keys=("host:a",)) for _ in range(3)]
    assert await worker.claim(10) == []

    await limit(store, "host:a", None)

    assert await worker.claim_ids(10) == waiting[:2]


@pytest.mark.spec("engine-8")
async def test_a_task_needs_room_in_every_one_of_its_keys(store: Store) -> None:
    worker = await node(store)
    a = await running(store, worker, keys=("a",))
    b = await running(store, worker, keys=("b",))
    both = await enqueued(store, keys=("a", "b"))

    await complete(store, a)
    assert await worker.claim(10) == []
    await complete(store, b)
    assert await worker.claim_ids(10) == [both]


@pytest.mark.spec("engine-8", "engine-10")
async def test_a_running_task_holds_every_one_of_its_keys(store: Store) -> None:
    worker = await node(store)
    both = await running(store, worker, keys=("a", "b"))
    a, b = await enqueued(store, keys=("a",)), await enqueued(store, keys=("b",))
    assert await worker.claim(10) == []

    await complete(store, both)

    assert await worker.claim_ids(10) == [a, b]


@pytest.mark.spec("engine-8")
async def test_a_task_blocked_by_one_key_takes_no_room_in_its_others(store: Store) -> None:
    worker = await node(store)
    await running(store, worker, keys=("a",))
    await enqueued(store, keys=("b", "a"))
    free = await enqueued(store, keys=("b",))

    assert await worker.claim_ids(10) == [free]


@pytest.mark.spec("engine-8")
async def test_lane_and_key_must_both_have_room(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "slow", 1)
    in_lane = await running(store, worker, lane="slow")
    on_key = await running(store, worker, lane="fast", keys=("k",))
    waiting = await enqueued(store, lane="slow", keys=("k",))

    await complete(store, on_key)
    assert await worker.claim(10) == []
    await complete(store, in_lane)
    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-8", "engine-10")
async def test_tasks_with_and_without_keys_stand_in_one_queue(store: Store) -> None:
    worker = await node(store, slots=50)
    keys = [("a",), (), (), ("a",), (), ("b",), (), ("a", "b"), ()]
    tasks = [new(keys=each) for each in keys]
    await store.enqueue(tasks)

    claimed = await worker.claim_ids(50)

    assert claimed == ids([tasks[n] for n in (0, 1, 2, 4, 5, 6, 8)])
