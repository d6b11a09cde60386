"""Fences that only these tests hold: see test_mutants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from taskyard.domain.state import State
from taskyard.domain.task import OnFailure
from taskyard.store.port import Store
from tests.conformance.places import MAKERS, Maker, Place
from tests.conformance.verbs import (
    LEASE_SECONDS,
    bare,
    enqueued,
    failed,
    finish,
    hold,
    ids,
    node,
    released,
    running,
    seen,
)


@pytest.fixture(params=MAKERS.values(), ids=list(MAKERS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    make: Maker = request.param
    return make(tmp_path)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    view = place.view()
    await view.open()
    yield view
    await view.close()


@pytest.mark.spec("engine-20")
async def test_a_beat_renews_no_other_lease(store: Store, place: Place) -> None:
    alive, dead = await node(store, "alive"), await node(store, "dead")
    kept = await running(store, alive)
    lost = await running(store, dead)
    await place.advance(LEASE_SECONDS - 1)
    assert not alive.beat().lost
    await place.advance(2)

    [rescued] = await store.rescue()

    assert rescued.lease == dead.lease
    assert (await seen(store, lost.id)).state is State.QUEUED
    assert (await seen(store, kept.id)).state is State.RUNNING


@pytest.mark.spec("engine-13")
async def test_the_same_number_of_another_node_is_another_request(store: Store) -> None:
    one, other = await node(store, "one"), await node(store, "other")
    await running(store, one)
    mine = await running(store, other)
    assert one.number == other.number

    again = await other.ask_again()

    assert ids(again.tasks) == [mine.id]


@pytest.mark.spec("engine-19")
async def test_an_attempt_that_was_given_back_cannot_say_that_it_has_started(store: Store) -> None:
    worker = await node(store, slots=1)
    await running(store, worker)
    task_id = await enqueued(store)
    [ahead] = await worker.claim(0, ahead=1)
    await finish(store, released(ahead))

    await store.mark_started([hold(bare(ahead))])

    task = await seen(store, task_id)
    assert (task.state, task.started_at) == (State.QUEUED, None)


@pytest.mark.spec("engine-11")
async def test_an_attempt_starts_once(store: Store, place: Place) -> None:
    task = await running(store, await node(store))
    began = (await seen(store, task.id)).started_at
    await place.advance(5)

    await store.mark_started([hold(task)])

    assert (await seen(store, task.id)).started_at == began


@pytest.mark.spec("engine-19", "engine-25")
async def test_a_checkpoint_is_of_the_accepted_attempt_alone(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker)
    assert await store.checkpoint(hold(first), "[1]")
    await finish(store, released(first))
    assert not await store.checkpoint(hold(bare(first)), "[2]")  # it does not run
    again = await worker.claim_one()
    assert not await store.checkpoint(hold(bare(first)), "[3]")  # nor as that attempt
    other = msgspec.structs.replace(again, lease=again.lease + 1)
    assert not await store.checkpoint(hold(other), "[4]")  # nor there

    assert (await seen(store, first.id)).checkpoint == "[1]"
    assert await store.checkpoint(hold(bare(again)), "[5]")


@pytest.mark.spec("engine-17")
async def test_a_dependency_that_ends_a_second_time_counts_once(store: Store) -> None:
    worker = await node(store)
    one, other = await running(store, worker), await running(store, worker)
    needed = (one.id, other.id)
    dependent = await enqueued(store, depends_on=needed, on_failure=OnFailure.RUN)
    for _ in range(2):
        await finish(store, failed(one, retry=False))
        await store.retry(one.id, actor="ann")
        one = await worker.claim_one()

    kept = await seen(store, dependent)

    assert (kept.state, kept.waits_for) == (State.PENDING, 1)
