"""A turn tells when all is done but to read its answer: another call may begin there and then."""

from __future__ import annotations

import pytest

from taskyard.domain.outcome import Finished
from taskyard.domain.state import State
from taskyard.store.port import ClaimRequest, Store, Turn
from tests.conformance.verbs import enqueued, node, running, succeeded


@pytest.mark.spec("engine-31")
async def test_it_is_told_once_how_many_were_claimed(store: Store) -> None:
    worker = await node(store, slots=10)
    told: list[int] = []

    async def answered(claimed: int) -> None:
        told.append(claimed)

    async def turn(number: int, *ended: object) -> Turn:
        request = ClaimRequest(lease=worker.lease, number=number, room=4)
        return await store.turn(list(ended), request, answered)  # type: ignore[arg-type]

    await turn(1)
    for _ in range(5):
        await enqueued(store)
    first = await turn(2)
    second = await turn(3, *map(succeeded, first.claim.tasks))

    assert told == [0, 4, 1]
    assert [len(one.claim.tasks) for one in (first, second)] == [4, 1]


@pytest.mark.spec("engine-13", "engine-31")
async def test_a_turn_taken_meanwhile_leaves_the_answer_as_it_was(store: Store) -> None:
    worker = await node(store, slots=10)
    task = await running(store, worker)
    for _ in range(4):
        await enqueued(store)
    meanwhile: list[Turn] = []

    async def answered(claimed: int) -> None:
        assert claimed == 2
        request = ClaimRequest(lease=worker.lease, number=3, room=2)
        meanwhile.append(await store.turn([], request))

    request = ClaimRequest(lease=worker.lease, number=2, room=2)
    turn = await store.turn([succeeded(task)], request, answered)

    assert turn.finished == [Finished(task.no, State.COMPLETED)]
    mine, others = ({one.no for one in each.claim.tasks} for each in (turn, *meanwhile))
    assert len(mine) == len(others) == 2
    assert mine.isdisjoint(others)
