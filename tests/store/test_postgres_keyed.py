"""Tasks with one key each, where a turn fills all slots at once, and where it cannot."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.state import State
from tests.conformance.verbs import complete, enqueued, finish, new, node, released, succeeded
from tests.store.postgres_place import Yard, connected, yard

HELD = "SELECT coalesce(array_agg(key ORDER BY key), '{}') FROM taskyard.held"
LOCK = "SELECT 1 FROM taskyard.ready WHERE no = $1 FOR UPDATE"
NO = "SELECT no FROM taskyard.tasks WHERE id = $1"

pytestmark = pytest.mark.spec("engine-10", "engine-12", "engine-29")


async def keyed(place: Yard, *keys: str, **options: Any) -> list[str]:
    return [await enqueued(place.store, keys=(key,), **options) for key in keys]


async def test_all_slots_are_filled_in_order_and_the_keys_are_held() -> None:
    async with yard() as place:
        worker = await node(place.store, slots=3)
        tasks = await keyed(place, *"cabed")

        claimed = await worker.claim(3)
        assert [task.id for task in claimed] == tasks[:3]
        assert await place.value(HELD) == ["a", "b", "c"]

        await complete(place.store, *claimed)
        assert await place.value(HELD) == []
        assert await worker.claim_ids(3) == tasks[3:]


async def test_who_shares_a_key_with_one_before_waits_for_it() -> None:
    async with yard() as place:
        worker = await node(place.store, slots=3)
        first, second, other, last = await keyed(place, "a", "a", "b", "c")

        claimed = await worker.claim(3)
        assert [task.id for task in claimed] == [first, other, last]

        await complete(place.store, claimed[0])
        assert await worker.claim_ids(1) == [second]


async def test_who_has_a_key_that_another_holds_waits_for_it() -> None:
    async with yard() as place:
        there, here = await node(place.store, "there"), await node(place.store, "here", slots=2)
        [held] = await keyed(place, "a")
        assert await there.claim_ids(1) == [held]
        waiting, free, last = await keyed(place, "a", "b", "c")

        assert await here.claim_ids(2) == [free, last]

        assert waiting not in await here.claim_ids(2)


async def test_each_is_told_its_own_attempt_and_limits() -> None:
    async with yard() as place:
        worker = await node(place.store, slots=2)
        [first] = await keyed(place, "a", timeout=5.0)
        [once] = await worker.claim(1)
        await finish(place.store, released(once))
        [second] = await keyed(place, "b", max_charged=9)

        told = {
            task.id: (task.attempt, task.timeout, task.max_charged)
            for task in await worker.claim(2)
        }

        usual = new()
        assert told == {first: (2, 5.0, usual.max_charged), second: (1, usual.timeout, 9)}


async def test_a_task_without_keys_behind_them_is_claimed_ahead() -> None:
    async with yard() as place:
        worker = await node(place.store, slots=2)
        first = await keyed(place, "a", "b", "c")
        plain = await enqueued(place.store)

        claim = await worker.ask(2, ahead=2)

        assert [task.id for task in claim.tasks] == [*first[:2], plain]
        assert claim.ahead == {claim.tasks[2].no}


async def test_one_that_somebody_is_changing_is_passed_over() -> None:
    async with yard() as place, connected() as caller, asyncio.timeout(30):
        worker = await node(place.store, slots=2)
        first, second, third = await keyed(place, "a", "b", "c")
        async with caller.transaction():
            await caller.execute(place.here(LOCK), await place.value(NO, first))
            assert await worker.claim_ids(2) == [second, third]


async def test_of_tasks_with_several_keys_all_are_given_back() -> None:
    async with yard() as place:
        worker = await node(place.store)
        await place.store.enqueue([new(keys=("a", "b")), new(keys=("c",)), new(keys=("d", "e"))])
        first, second, third = await worker.claim(3)
        await finish(place.store, released(second))

        answers = await finish(place.store, *map(succeeded, (first, second, third)))

        assert answers == [
            Finished(first.no, State.COMPLETED),
            Stale(second.no, 1),
            Finished(third.no, State.COMPLETED),
        ]
        assert await place.value(HELD) == []
