"""A task whose node died is a suspect: what ran beside it decides who is counted next time."""

from __future__ import annotations

import pytest

from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import LEASE_SECONDS, Worker, enqueued, node, seen, state_of


async def suspect(store: Store, losses: int = 1) -> str:
    """A waiting task under which nodes died, alone."""
    task_id = await enqueued(store, max_charged=20, priority=1)
    for _ in range(losses):
        await lose(store, await claim_on(store, "doomed", 1))
    kept = await seen(store, task_id)
    assert (kept.losses, kept.state) == (losses, State.QUEUED)
    return task_id


async def claim_on(store: Store, name: str, room: int) -> tuple[Worker, list[Claimed]]:
    worker = await node(store, name)
    claimed = await worker.claim(room)
    assert len(claimed) == room
    return worker, claimed


async def lose(store: Store, crew: tuple[Worker, list[Claimed]]) -> None:
    await store.rescue([crew[0].lease], ended=False)


@pytest.mark.spec("engine-22", "engine-2")
async def test_a_suspect_beside_another_is_not_blamed(store: Store) -> None:
    known = await suspect(store)
    fresh = await enqueued(store)
    before = await seen(store, known)
    await lose(store, await claim_on(store, "node-a", 2))

    kept, other = await seen(store, known), await seen(store, fresh)

    assert (kept.losses, kept.charged, kept.failures) == (1, 1, before.failures)
    assert (kept.state, kept.reason, kept.seq) == (State.QUEUED, Reason.RESCUED, before.seq)
    assert (other.losses, other.charged, len(other.failures)) == (1, 1, 1)
    assert (other.state, other.reason) == (State.QUEUED, Reason.RESCUED)


@pytest.mark.spec("engine-22")
async def test_suspects_alone_are_blamed_each(store: Store) -> None:
    known = [await enqueued(store) for _ in range(2)]
    for name in ("node-a", "node-b"):
        await lose(store, await claim_on(store, name, 2))

    assert [(await seen(store, task_id)).losses for task_id in known] == [2, 2]


@pytest.mark.spec("engine-22")
async def test_beside_one_that_had_not_started_a_suspect_is_to_blame(store: Store) -> None:
    known = await suspect(store)
    ahead = await enqueued(store, priority=9)
    worker = await node(store, "node-a", slots=1)
    claim = await worker.ask(1, ahead=1)
    assert [task.id for task in claim.tasks] == [known, ahead]

    await store.rescue([worker.lease], ended=False)

    assert (await seen(store, known)).losses == 2
    assert (await seen(store, ahead)).losses == 0


@pytest.mark.spec("engine-22")
async def test_each_node_is_judged_for_itself(store: Store, time: StoreTime) -> None:
    known = await suspect(store)
    alone, _ = await claim_on(store, "node-a", 1)
    fresh = [await enqueued(store) for _ in range(2)]
    beside, _ = await claim_on(store, "node-b", 2)
    await time.advance(LEASE_SECONDS + 1)

    rescued = await store.rescue()

    assert {one.lease for one in rescued} == {alone.lease, beside.lease}
    assert (await seen(store, known)).losses == 2
    assert [(await seen(store, task_id)).losses for task_id in fresh] == [1, 1]


@pytest.mark.spec("engine-22")
async def test_an_innocent_neighbour_of_poison_survives(store: Store) -> None:
    """One kills each node it runs on; the other always runs beside it."""
    poison = await enqueued(store, max_charged=20)
    innocent = await enqueued(store, max_charged=20)
    await lose(store, await claim_on(store, "node-0", 2))
    for number in (1, 2):
        crew = await claim_on(store, f"node-{number}", 1)  # suspects are run alone by the engine
        assert crew[1][0].id == poison
        await lose(store, crew)

    assert await state_of(store, poison) == (State.FAILED, Reason.POISON)
    kept = await seen(store, innocent)
    assert (kept.losses, kept.state) == (1, State.QUEUED)


@pytest.mark.spec("engine-22")
async def test_a_suspect_beside_others_does_not_become_poison(store: Store) -> None:
    known = await suspect(store, losses=2)
    for number in range(3):
        fresh = await enqueued(store, priority=2)
        await lose(store, await claim_on(store, f"node-{number}", 2))
        await store.cancel(fresh, actor="ann")

    assert (await seen(store, known)).losses == 2
    await lose(store, await claim_on(store, "last", 1))
    assert await state_of(store, known) == (State.FAILED, Reason.POISON)


@pytest.mark.spec("engine-22", "engine-6")
async def test_a_new_life_is_no_suspect(store: Store) -> None:
    known = await suspect(store, losses=2)
    await store.cancel(known, actor="ann")
    await store.retry(known, actor="ann")

    [task] = (await claim_on(store, "node-a", 1))[1]

    assert (task.id, task.losses) == (known, 0)
