"""A claim says once what is the same for all it takes, and else for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from taskyard.domain.lane import LaneChange
from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.state import State
from taskyard.domain.task import TaskQuery
from taskyard.store.port import ClaimRequest
from tests.conformance.verbs import complete, finish, new, node, released, succeeded
from tests.store.postgres_place import yard

SAID: list[list[dict[str, Any]]] = [
    [{}, {}, {}],
    [{"timeout": 5.0}, {}, {"max_charged": 9}],
    [{}, {"lane": "b"}],
]

SINCE = "SELECT since FROM taskyard.loads ORDER BY entry DESC LIMIT 1"

pytestmark = pytest.mark.spec("engine-12", "engine-29")


async def test_what_differs_is_said_of_each_task() -> None:
    async with yard() as place:
        store = place.store
        worker = await node(store)
        for options in SAID:
            tasks = [new(**one) for one in options]
            await store.enqueue(tasks)
            claimed = {task.id: task for task in await worker.claim(9)}
            assert [
                (claimed[t.id].timeout, claimed[t.id].max_charged, claimed[t.id].lane)
                for t in tasks
            ] == [(t.timeout, t.max_charged, t.lane) for t in tasks]
            assert {task.attempt for task in claimed.values()} == {1}


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize("keyed", [False, True])
async def test_nothing_is_told_of_one_under_the_number_of_another(keyed: bool) -> None:
    """Something has deleted the first one's row."""
    async with yard() as place:
        store = place.store
        worker = await node(store, slots=3)
        tasks = [new(payload=f"[{n}]", keys=(f"k{n}",) if keyed else ()) for n in range(3)]
        await store.enqueue(tasks)
        numbers = {task.id: task.no for task in await store.find(TaskQuery())}
        await place.value("DELETE FROM taskyard.tasks WHERE no = $1", numbers[tasks[0].id])

        claimed = await worker.claim(3)

        assert [(task.no, task.id, task.payload) for task in claimed] == [
            (numbers[task.id], task.id, task.payload) for task in tasks[1:]
        ]


async def test_of_attempts_each_is_told_its_own() -> None:
    async with yard() as place:
        store = place.store
        worker = await node(store)
        await store.enqueue([new(), new()])
        first, second = await worker.claim(2)
        await finish(store, released(second))
        third = new()
        await store.enqueue([third])

        again = await worker.claim(9)

        assert [(task.id, task.attempt) for task in again] == [(second.id, 2), (third.id, 1)]
        assert first.attempt == 1


async def test_the_room_of_a_lane_is_that_under_the_lock() -> None:
    async with yard() as place:
        store = place.store
        await store.set_lane("default", LaneChange(capacity=3), actor="me")
        worker, other = await node(store, "a"), await node(store, "b")
        await store.enqueue([new(priority=n) for n in (5, 1, 9, 5, 1)])

        taken = [*await worker.claim(2), *await other.claim(9)]

        assert len(taken) == 3
        assert await worker.claim(9) == []
        await finish(store, released(taken[0]))
        assert len(await other.claim(9)) == 1


async def test_one_that_runs_for_long_is_counted_all_the_time() -> None:
    async with yard() as place:
        store = place.store
        await store.set_lane("default", LaneChange(capacity=2), actor="me")
        worker = await node(store)
        await store.enqueue([new() for _ in range(90)])
        [long] = await worker.claim(1)
        for _ in range(40):
            [short] = await worker.claim(5)
            await complete(store, short)
        assert await place.value(SINCE) == 1

        await complete(store, long)
        for _ in range(20):
            pair = await worker.claim(5)
            assert len(pair) == 2
            await complete(store, *pair)

        assert await place.value(SINCE) > 40


@pytest.mark.parametrize(
    ("waiting", "taken", "ahead"),
    [
        ([{"lane": "wide"}] * 4, 3, 1),  # nothing limited waits any more
        ([{"lane": "wide", "keys": ("k",)}] * 3, 1, 0),
        ([{"lane": "wide"}, {"lane": "narrow"}, {"lane": "narrow"}], 2, 0),
        ([{"lane": "narrow"}, {"lane": "narrow"}], 1, 0),
        ([], 0, 0),
    ],
)
async def test_a_turn_that_ends_what_was_limited_goes_by_what_waits(
    waiting: list[dict[str, Any]], taken: int, ahead: int
) -> None:
    async with yard() as place:
        store = place.store
        await store.set_lane("narrow", LaneChange(capacity=1), actor="me")
        worker = await node(store)
        await store.enqueue([new(lane="narrow")])
        [limited] = await worker.claim(1)
        await store.enqueue([new(**options) for options in waiting])

        request = ClaimRequest(lease=worker.lease, number=worker.number + 1, room=3, ahead=1)
        turn = await store.turn([succeeded(limited)], request)

        assert turn.finished == [Finished(limited.no, State.COMPLETED)]
        assert len(turn.claim.tasks) == taken + ahead
        assert len(turn.claim.ahead) == ahead


async def test_beside_a_stale_one_the_others_are_said_with_their_attempts() -> None:
    async with yard() as place:
        store = place.store
        worker = await node(store)
        await store.enqueue([new(), new(), new()])
        first, second, third = await worker.claim(3)
        await finish(store, released(second))
        again = await worker.claim_one()

        answers = await finish(store, *map(succeeded, (first, second, third, again)))

        assert answers == [
            Finished(first.no, State.COMPLETED),
            Stale(second.no, 1),
            Finished(third.no, State.COMPLETED),
            Finished(again.no, State.COMPLETED),
        ]
