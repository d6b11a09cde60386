"""Locks are taken in one order, whatever comes together: nobody is the victim of a deadlock.

A third one holds a lock that both come to, until the server says that both wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.lane import LaneChange
from taskyard.domain.state import Reason, State
from taskyard.domain.task import OnFailure
from taskyard.store.postgres.turn import TURN, turn_args
from tests.conformance.verbs import (
    complete,
    enqueued,
    lane_of,
    node,
    parked,
    running,
    state_of,
    succeeded,
)
from tests.store.postgres_place import Yard, blocked, connected, yard

HOUR = 3600 * SECOND
FLOOR = """INSERT INTO taskyard.floors
    (lane, route, priority, pass, raised_at, safe, seen, looked_at, cost)
    VALUES (1, 1, 9, 1, 0, 0, 0, 0, 0)"""
CANCEL = "SELECT taskyard.cancel(0, $1, 'ann')"
EXPIRE = "SELECT taskyard.expire($1, 100)"
PROMOTE = "SELECT taskyard.promote($1, 100)"
SET_LANE = "SELECT taskyard.set_lane(0, 'slow', '{\"capacity\": 3}', 1000, 'ann')"

QUEUED = (State.QUEUED, Reason.DEPENDENCY)
GIVEN_UP = (State.CANCELLED, Reason.DEPENDENCY)

pytestmark = pytest.mark.spec("engine-29")

Call = tuple[str, Sequence[object]]


async def meet(place: Yard, lock: str, *calls: Call) -> None:
    """These come to a lock one after the other while it is held, and then go on together."""
    async with connected() as holder, connected() as one, connected() as other:
        opened = holder.transaction()
        await opened.start()
        await holder.execute(place.here(f"SELECT taskyard.{lock}()"))
        under_way: list[asyncio.Task[str]] = []
        for connection, (statement, args) in zip((one, other), calls, strict=True):
            call = connection.execute(place.here(statement), *args)
            under_way.append(asyncio.create_task(call))
            await blocked(connection)
        await opened.commit()
        try:
            await asyncio.gather(*under_way)
        except asyncpg.DeadlockDetectedError as error:
            pytest.fail(f"deadlock: {error.detail}")


@pytest.mark.parametrize("ends", ["finish", "cancel"])
async def test_who_ends_a_task_comes_to_its_dependents_before_the_floors(ends: str) -> None:
    """One wakes a waiter and has a dependent in common with the other, which frees one more."""
    async with yard() as place:
        store = place.store
        nodes = [await node(store, name) for name in ("a", "b")]
        second = await running(store, nodes[1])
        holder = await running(store, nodes[0], keys=("k",))
        first = holder.id if ends == "finish" else await enqueued(store, keys=("k",))
        shared = await enqueued(store, depends_on=(first, second.id))
        freed = await enqueued(store, depends_on=(second.id,))
        waiter = await enqueued(store, keys=("k",))
        call: Call = (TURN, turn_args(0, [succeeded(holder)], None))
        if ends == "cancel":
            await complete(store, holder)  # the first is next, and the waiter waits for it
            call = (CANCEL, (first,))
        assert await parked(store) == {waiter: "k"}
        await place.value(FLOOR)

        end: Call = (TURN, turn_args(0, [succeeded(second)], None))
        await meet(place, "lock_floors", call, end)

        assert await parked(store) == {}
        assert await state_of(store, freed) == QUEUED
        assert await state_of(store, shared) == (QUEUED if ends == "finish" else GIVEN_UP)


async def test_what_expires_comes_to_all_dependents_before_the_floors() -> None:
    async with yard() as place:
        store = place.store
        nodes = [await node(store, name) for name in ("a", "b")]
        second = await running(store, nodes[1])
        await running(store, nodes[0], keys=("k",))
        deadline = await store.now() + HOUR
        late = await enqueued(store, deadline=deadline)
        waiter = await enqueued(store, keys=("k",), deadline=deadline)
        goes_on = await enqueued(store, depends_on=(late,), on_failure=OnFailure.RUN)
        shared = await enqueued(store, depends_on=(waiter, second.id))
        freed = await enqueued(store, depends_on=(second.id,))
        await place.value(FLOOR)

        end: Call = (TURN, turn_args(0, [succeeded(second)], None))
        await meet(place, "lock_floors", (EXPIRE, (2 * HOUR,)), end)

        assert await state_of(store, goes_on) == QUEUED
        assert await state_of(store, shared) == GIVEN_UP
        assert await state_of(store, freed) == QUEUED


async def test_promote_comes_to_the_room_before_the_lanes() -> None:
    """A pause has ended, and a key is to be looked at once more."""
    async with yard() as place:
        store = place.store
        until = await store.now() + HOUR
        change = LaneChange(paused=True, paused_until=until)
        await store.set_lane("slow", change, actor="ann")
        await place.value("INSERT INTO taskyard.second_looks (key) VALUES ('k')")

        await meet(place, "lock_room", (SET_LANE, ()), (PROMOTE, (2 * HOUR,)))

        lane = await lane_of(store, "slow")
        assert (lane.capacity, lane.paused) == (3, False)
