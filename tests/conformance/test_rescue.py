from __future__ import annotations

import pytest

from taskyard.domain.outcome import Finished
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    LEASE_SECONDS,
    complete,
    enqueued,
    failed,
    finish,
    ids,
    node,
    running,
    seen,
    state_of,
    succeeded,
)


async def killed(store: Store, task_id: str) -> Claimed:
    """Claim a task and let its node die."""
    worker = await node(store, "doomed")
    [task] = await worker.claim(1)
    assert task.id == task_id
    await store.rescue([worker.lease])
    return task


@pytest.mark.spec("engine-20")
async def test_tasks_of_a_live_lease_are_left_alone(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await time.advance(LEASE_SECONDS - 1)

    assert await store.rescue() == []

    assert (await seen(store, task.id)).state is State.RUNNING
    await complete(store, task)


@pytest.mark.spec("engine-20", "engine-7")
async def test_tasks_of_an_ended_lease_go_back_into_their_queue(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store, "node-a")
    for _ in range(2):
        await enqueued(store)
    tasks = await worker.claim(2)
    places = [(await seen(store, task.id)).seq for task in tasks]
    await time.advance(LEASE_SECONDS + 1)

    [rescued] = await store.rescue()

    assert (rescued.node, rescued.lease) == ("node-a", worker.lease)
    assert {v.id for v in rescued.verdicts} == set(ids(tasks))
    for task, place in zip(tasks, places, strict=True):
        kept = await seen(store, task.id)
        assert (kept.state, kept.reason, kept.seq) == (State.QUEUED, Reason.RESCUED, place)
        assert (kept.charged, kept.losses, kept.attempt) == (1, 1, 1)
        assert [(f.attempt, f.reason, f.node) for f in kept.failures] == [
            (1, Reason.RESCUED, "node-a")
        ]


@pytest.mark.spec("engine-20")
async def test_a_rescue_happens_once(store: Store, elsewhere: Store, time: StoreTime) -> None:
    task = await running(store, await node(store))
    await time.advance(LEASE_SECONDS + 1)

    assert len(await store.rescue()) == 1
    assert await store.rescue() == []
    assert await elsewhere.rescue() == []
    assert (await seen(store, task.id)).charged == 1


@pytest.mark.spec("engine-20")
async def test_a_node_that_held_nothing_is_forgotten_quietly(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    await time.advance(LEASE_SECONDS + 1)

    [rescued] = await store.rescue()

    assert (rescued.lease, rescued.verdicts) == (worker.lease, [])
    assert await store.nodes() == []


@pytest.mark.spec("engine-20")
async def test_a_proven_dead_lease_is_rescued_at_once(store: Store) -> None:
    dead, alive = await node(store, "node-a"), await node(store, "node-b")
    lost = await running(store, dead)
    kept = await running(store, alive)

    [rescued] = await store.rescue([dead.lease])

    assert rescued.lease == dead.lease
    assert (await seen(store, lost.id)).state is State.QUEUED
    assert (await seen(store, kept.id)).state is State.RUNNING


@pytest.mark.spec("engine-20")
async def test_a_rescue_of_the_proven_dead_alone_leaves_ended_leases(
    store: Store, time: StoreTime
) -> None:
    late, dead = await node(store, "node-a"), await node(store, "node-b")
    task = await running(store, late)
    await time.advance(LEASE_SECONDS + 1)

    [rescued] = await store.rescue([dead.lease], ended=False)

    assert rescued.lease == dead.lease
    assert (await seen(store, task.id)).state is State.RUNNING


@pytest.mark.spec("engine-20")
async def test_a_lease_nobody_knows_is_no_mistake(store: Store) -> None:
    assert await store.rescue([12345]) == []


@pytest.mark.spec("engine-20")
async def test_the_rescued_task_runs_on_another_node(store: Store) -> None:
    task_id = await enqueued(store)
    await killed(store, task_id)
    alive = await node(store, "alive")

    again = await alive.claim_one()

    assert (again.id, again.attempt, again.charged) == (task_id, 2, 1)
    assert (await seen(store, task_id)).node == "alive"
    await complete(store, again)


@pytest.mark.spec("engine-20", "engine-6")
async def test_a_lost_task_that_was_asked_to_stop_is_cancelled(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.cancel(task.id, actor="ann")

    await store.rescue([worker.lease])

    assert await state_of(store, task.id) == (State.CANCELLED, Reason.OPERATOR)


@pytest.mark.spec("engine-22")
async def test_a_task_lost_three_times_is_poison(store: Store) -> None:
    task_id = await enqueued(store, max_charged=10, payload='{"raw":"kept"}')
    for losses in (1, 2):
        await killed(store, task_id)
        kept = await seen(store, task_id)
        assert (kept.state, kept.losses) == (State.QUEUED, losses)

    await killed(store, task_id)

    kept = await seen(store, task_id)
    assert (kept.state, kept.reason, kept.losses) == (State.FAILED, Reason.POISON, 3)
    assert kept.payload == '{"raw":"kept"}'
    assert kept.ended_at is not None


@pytest.mark.spec("engine-2", "engine-20")
async def test_a_loss_that_uses_up_the_budget_fails_the_task(store: Store) -> None:
    task_id = await enqueued(store, max_charged=2)
    await killed(store, task_id)
    await killed(store, task_id)

    kept = await seen(store, task_id)

    assert (kept.state, kept.reason) == (State.FAILED, Reason.LOST)
    assert (kept.charged, kept.attempt) == (2, 2)
    assert kept.error is not None
    assert kept.error.type == "Lost"


@pytest.mark.spec("engine-2", "engine-20")
async def test_losses_and_failures_use_up_one_budget(store: Store) -> None:
    worker = await node(store)
    task_id = await enqueued(store, max_charged=2)
    await killed(store, task_id)
    task = await worker.claim_one()

    assert await finish(store, failed(task)) == [Finished(task.no, State.FAILED)]


@pytest.mark.spec("engine-2", "engine-11", "engine-22")
async def test_a_task_that_had_not_started_is_not_charged(store: Store) -> None:
    worker = await node(store, slots=1)
    started, ahead = [await enqueued(store) for _ in range(2)]
    await worker.ask(1, ahead=1)

    await store.rescue([worker.lease])

    first, second = await seen(store, started), await seen(store, ahead)
    assert (first.charged, first.losses, len(first.failures)) == (1, 1, 1)
    assert (second.charged, second.losses, second.failures) == (0, 0, ())
    assert (second.state, second.reason) == (State.QUEUED, Reason.RESCUED)


@pytest.mark.spec("engine-20", "engine-6")
async def test_a_new_life_forgets_the_losses(store: Store) -> None:
    task_id = await enqueued(store, max_charged=10)
    for _ in range(3):
        await killed(store, task_id)
    await store.retry(task_id, actor="ann")

    await killed(store, task_id)

    assert await state_of(store, task_id) == (State.QUEUED, Reason.RESCUED)


@pytest.mark.spec("engine-20")
async def test_an_older_incarnation_keeps_its_tasks_until_it_is_gone(
    store: Store, time: StoreTime
) -> None:
    old = await node(store, "node-a")
    task = await running(store, old)
    await time.advance(5)
    await node(store, "node-a")
    assert await store.rescue() == []

    assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]
