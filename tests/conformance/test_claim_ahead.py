from __future__ import annotations

import pytest

from taskyard.domain.state import Reason, State
from taskyard.store.port import Store
from tests.conformance.verbs import (
    capacity,
    enqueued,
    finish,
    hold,
    ids,
    node,
    released,
    running,
    seen,
)


@pytest.mark.spec("engine-11")
async def test_a_node_may_claim_beyond_its_slots(store: Store) -> None:
    worker = await node(store, slots=2)
    waiting = [await enqueued(store) for _ in range(6)]

    claim = await worker.ask(2, ahead=3)

    assert ids(claim.tasks) == waiting[:5]
    assert claim.ahead == {task.no for task in claim.tasks[2:]}


@pytest.mark.spec("engine-11")
async def test_what_is_claimed_ahead_runs_but_has_not_started(store: Store) -> None:
    worker = await node(store, slots=1)
    now, later = [await enqueued(store) for _ in range(2)]

    await worker.ask(1, ahead=1)

    assert (await seen(store, now)).started_at is not None
    kept = await seen(store, later)
    assert (kept.state, kept.attempt, kept.started_at) == (State.RUNNING, 1, None)


@pytest.mark.spec("engine-11")
async def test_nothing_is_ahead_while_slots_are_free(store: Store) -> None:
    worker = await node(store, slots=4)
    for _ in range(3):
        await enqueued(store)

    claim = await worker.ask(4, ahead=4)

    assert len(claim.tasks) == 3
    assert claim.ahead == frozenset()


@pytest.mark.spec("engine-11")
async def test_a_task_with_keys_is_not_claimed_ahead(store: Store) -> None:
    worker = await node(store, slots=1)
    first = await enqueued(store)
    await enqueued(store, keys=("k",))
    plain = await enqueued(store)

    claim = await worker.ask(1, ahead=2)

    assert ids(claim.tasks) == [first, plain]


@pytest.mark.spec("engine-11")
async def test_a_task_of_a_lane_with_capacity_is_not_claimed_ahead(store: Store) -> None:
    worker = await node(store, slots=1)
    await capacity(store, "narrow", 5)
    await running(store, worker)
    await enqueued(store, lane="narrow")

    assert (await worker.ask(1, ahead=3)).tasks == []


@pytest.mark.spec("engine-11", "engine-22")
async def test_a_rescued_task_is_not_claimed_ahead(store: Store) -> None:
    dead, alive = await node(store, "node-a"), await node(store, "node-b", slots=1)
    suspect = await running(store, dead)
    await store.rescue([dead.lease])
    first = await enqueued(store, priority=1)
    behind = await enqueued(store, priority=9)

    claim = await alive.ask(1, ahead=3)

    assert ids(claim.tasks) == [first, behind]
    assert (await seen(store, suspect.id)).state is State.QUEUED


@pytest.mark.spec("engine-11")
async def test_what_has_not_started_goes_back_uncharged_and_in_place(store: Store) -> None:
    worker = await node(store, slots=1)
    waiting = [await enqueued(store) for _ in range(3)]
    claim = await worker.ask(1, ahead=1)
    await finish(store, released(claim.tasks[1]))

    kept = await seen(store, waiting[1])
    assert (kept.state, kept.reason, kept.charged) == (State.QUEUED, Reason.RELEASED, 0)
    assert ids((await worker.ask(0, ahead=1)).tasks) == [waiting[1]]


@pytest.mark.spec("engine-11")
async def test_what_is_ahead_takes_no_slot_before_it_has_started(store: Store) -> None:
    worker = await node(store, slots=2)
    for _ in range(3):
        await enqueued(store)
    claim = await worker.ask(1, ahead=1)
    last = await enqueued(store, priority=1, keys=("k",))

    assert len(claim.ahead) == 1
    assert await worker.claim_ids(1) == [last]


@pytest.mark.spec("engine-11")
async def test_what_was_ahead_and_has_started_takes_a_slot(store: Store) -> None:
    worker = await node(store, slots=2)
    for _ in range(2):
        await enqueued(store)
    claim = await worker.ask(1, ahead=1)
    await store.mark_started([hold(claim.tasks[1])])
    await enqueued(store)

    assert (await seen(store, claim.tasks[1].id)).started_at is not None
    assert await worker.claim(1) == []


@pytest.mark.spec("engine-11", "engine-19")
async def test_a_stale_attempt_cannot_say_that_it_has_started(store: Store) -> None:
    worker = await node(store, slots=1)
    for _ in range(2):
        await enqueued(store)
    claim = await worker.ask(1, ahead=1)
    stale = claim.tasks[1]
    await finish(store, released(stale))
    await worker.ask(0, ahead=1)

    await store.mark_started([hold(stale)])

    assert (await seen(store, stale.id)).started_at is None
