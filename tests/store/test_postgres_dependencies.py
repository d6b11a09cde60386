"""Dependencies while what they are about is just ending, or just being saved.

Each test holds a transaction open at the moment that matters.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from taskyard.domain.node import NewNode
from taskyard.domain.outcome import Verdict
from taskyard.domain.retention import Retention
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed, Clash, Dedup, Duplicate, OnFailure
from taskyard.store.port import ClaimRequest
from taskyard.store.postgres.turn import TURN, turn_args
from tests.conformance.pruning import AT_ONCE
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    new,
    node,
    running,
    seen,
    state_of,
    succeeded,
)
from tests.store.postgres_place import Yard, connected, someone_waits, yard

FREE = (State.QUEUED, Reason.DEPENDENCY)
CREATED = (State.PENDING, Reason.CREATED)

pytestmark = pytest.mark.spec("engine-17", "engine-29")


async def end(
    place: Yard, connection: asyncpg.Connection[asyncpg.Record], *verdicts: Verdict
) -> None:
    """A finish on a connection of the test's, which commits when the test says so."""
    await connection.fetchrow(place.here(TURN), *turn_args(0, verdicts, None))


async def test_who_ends_a_task_may_have_looked_at_the_clock_before_its_dependent_came() -> None:
    """It has waited for that. One that may start at once does not wait for its time then."""
    async with yard() as place, connected() as ending:
        store = place.store
        task = await running(store, await node(store))
        now, later = new(depends_on=(task.id,)), new(depends_on=(task.id,), delay=60)
        await store.enqueue([now, later])
        second_ago = turn_args(-1_000_000, [succeeded(task)], None)
        await ending.fetchrow(place.here(TURN), *second_ago)
        assert (await seen(store, now.id)).state is State.QUEUED
        assert (await seen(store, later.id)).state is State.PENDING


async def test_a_dependency_that_ends_while_its_dependent_is_saved_is_counted() -> None:
    async with yard() as place, connected() as ending:
        store = place.store
        task = await running(store, await node(store))
        opened = ending.transaction()
        await opened.start()
        await end(place, ending, succeeded(task))
        dependent = new(depends_on=(task.id,))
        saving = asyncio.create_task(store.enqueue([dependent]))
        await someone_waits(place)
        await opened.commit()
        await saving

        kept = await seen(store, dependent.id)
        assert (kept.state, kept.reason, kept.waits_for) == (State.QUEUED, Reason.CREATED, 0)


async def test_an_ending_that_was_undone_is_not_counted() -> None:
    async with yard() as place, connected() as ending:
        store = place.store
        task = await running(store, await node(store))
        opened = ending.transaction()
        await opened.start()
        await end(place, ending, succeeded(task))
        dependent = new(depends_on=(task.id,))
        saving = asyncio.create_task(store.enqueue([dependent]))
        await someone_waits(place)
        await opened.rollback()
        await saving
        assert await state_of(store, dependent.id) == CREATED

        await complete(store, task)

        assert await state_of(store, dependent.id) == FREE


async def test_a_dependency_may_end_while_a_callers_transaction_is_open() -> None:
    """It waits for nobody, and the dependent is free when it is committed."""
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        task, bad = await running(store, worker), await running(store, worker)
        await enqueued(store, delay=60)
        good_one = new(depends_on=(task.id,))
        given_up = new(depends_on=(task.id, bad.id))
        runs = new(depends_on=(bad.id,), on_failure=OnFailure.RUN, keys=("k",))
        async with caller.transaction():
            await store.enqueue_in(caller, [good_one])
            await store.enqueue_in(caller, [given_up, runs])
            await complete(store, task)
            await store.finish([failed(bad, retry=False)])
            assert await store.get(good_one.id) is None

        assert await state_of(store, good_one.id) == (State.QUEUED, Reason.CREATED)
        assert await state_of(store, given_up.id) == (State.CANCELLED, Reason.DEPENDENCY)
        assert await worker.claim_ids(10) == [good_one.id, runs.id]
        assert await place.value("SELECT count(*) FROM taskyard.unsettled") == 0


async def test_a_dependency_may_start_and_end_while_a_callers_transaction_is_open() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        first = await enqueued(store)
        dependent = new(depends_on=(first,))
        async with caller.transaction():
            await store.enqueue_in(caller, [dependent])
            await complete(store, await worker.claim_one())

        assert await worker.claim_ids(10) == [dependent.id]


async def test_a_callers_chain_lives_and_dies_with_its_transaction() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        await enqueued(store, delay=60)
        opened = caller.transaction()
        await opened.start()
        await store.enqueue_in(caller, [new(id="gone"), new(depends_on=("gone",))])
        await opened.rollback()
        assert (await store.counts())[State.PENDING] == 1
        async with caller.transaction():
            await store.enqueue_in(caller, [new(id="one")])
            await store.enqueue_in(caller, [new(id="two", depends_on=("one",))])

        assert await worker.claim_ids(10) == ["one"]


async def test_two_that_end_at_the_same_moment_free_their_dependent_once() -> None:
    async with yard() as place, connected() as one, connected() as other:
        store = place.store
        nodes = [await node(store, name) for name in ("a", "b")]
        tasks = [await running(store, worker) for worker in nodes]
        dependent = new(depends_on=tuple(task.id for task in tasks))
        await store.enqueue([dependent])
        first = one.transaction()
        await first.start()
        await end(place, one, succeeded(tasks[0]))
        second = other.transaction()
        await second.start()
        then = asyncio.create_task(end(place, other, succeeded(tasks[1])))
        await someone_waits(place)
        await first.commit()
        await then
        assert await state_of(store, dependent.id) == CREATED
        await second.commit()

        assert await state_of(store, dependent.id) == FREE
        assert await place.value("SELECT count(*) FROM taskyard.ready") == 1


async def test_of_two_that_end_one_is_undone() -> None:
    async with yard() as place, connected() as one:
        store = place.store
        nodes = [await node(store, name) for name in ("a", "b")]
        tasks = [await running(store, worker) for worker in nodes]
        dependent = new(depends_on=tuple(task.id for task in tasks))
        await store.enqueue([dependent])
        first = one.transaction()
        await first.start()
        await end(place, one, succeeded(tasks[0]))
        then = asyncio.create_task(complete(store, tasks[1]))
        await someone_waits(place)
        await first.rollback()
        await then
        assert (await seen(store, dependent.id)).waits_for == 1

        await complete(store, tasks[0])

        assert await state_of(store, dependent.id) == FREE


async def test_a_dependent_that_is_cancelled_while_it_is_freed_ends_once() -> None:
    async with yard() as place, connected() as ending:
        store = place.store
        task = await running(store, await node(store))
        dependent = new(depends_on=(task.id,))
        third = new(depends_on=(dependent.id,), on_failure=OnFailure.RUN)
        await store.enqueue([dependent, third])
        opened = ending.transaction()
        await opened.start()
        await end(place, ending, succeeded(task))
        cancelling = asyncio.create_task(store.cancel(dependent.id, actor="ann"))
        await someone_waits(place)
        await opened.commit()
        await cancelling

        assert await state_of(store, dependent.id) == (State.CANCELLED, Reason.OPERATOR)
        assert await state_of(store, third.id) == FREE


async def test_nothing_is_pruned_that_somebody_is_about_to_depend_on() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        task = await running(store, worker)
        await complete(store, task)
        async with caller.transaction():
            await store.enqueue_in(caller, [new(id="dependent", depends_on=(task.id,))])
            step = await store.prune(AT_ONCE, actor="ann")
            assert step.tasks == 0

        assert await worker.claim_ids(10) == ["dependent"]
        assert (await store.prune(Retention(), actor="ann")).tasks == 0


async def test_graphs_that_end_in_all_ways_at_once_leave_nobody_behind() -> None:
    """Diamonds and chains, ended by eight workers while more of them come."""
    async with yard(stores=4) as place:
        over = asyncio.Event()

        async def works(at: int) -> None:
            store = place.stores[at % 4]
            lease = await store.register(NewNode(id=f"node-{at}", kinds=("work",), slots=4))
            number, mine = 0, list[Claimed]()
            while not over.is_set():
                number += 1
                verdicts = [
                    failed(task, retry=False) if task.no % 5 == 0 else succeeded(task)
                    for task in mine
                ]
                request = ClaimRequest(lease=lease, number=number, room=4)
                mine = (await store.turn(verdicts, request)).claim.tasks

        async def brings(at: int) -> None:
            store = place.stores[at % 4]
            for turn in range(15):
                name = f"{at} {turn}"
                await store.enqueue(
                    [
                        new(id=f"{name} top"),
                        new(id=f"{name} left", depends_on=(f"{name} top",)),
                        new(id=f"{name} right", depends_on=(f"{name} top",)),
                    ]
                )
                sides = (f"{name} left", f"{name} right")
                await store.enqueue(
                    [
                        new(id=f"{name} foot", depends_on=sides),
                        new(id=f"{name} any", depends_on=sides, on_failure=OnFailure.RUN),
                    ]
                )

        async def settled() -> None:
            while True:
                counts = await place.store.counts()
                if counts[State.QUEUED] + counts[State.PENDING] + counts[State.RUNNING] == 0:
                    return
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for at in range(8):
                group.create_task(works(at))
            await asyncio.gather(*(brings(at) for at in range(4)))
            async with asyncio.timeout(120):
                await settled()
            over.set()

        for at in range(4):
            for turn in range(15):
                name = f"{at} {turn}"
                top, left, right, foot, callback = [
                    (await seen(place.store, f"{name} {which}")).state
                    for which in ("top", "left", "right", "foot", "any")
                ]
                if top is not State.COMPLETED:
                    assert (left, right) == (State.CANCELLED, State.CANCELLED)
                if State.COMPLETED is not left or State.COMPLETED is not right:
                    assert foot is State.CANCELLED
                assert callback in (State.COMPLETED, State.FAILED)


async def test_a_payload_is_replaced_before_the_start_or_not_at_all() -> None:
    """A claim that saw the old row does not take the task with the old payload."""
    async with yard() as place, connected() as caller:
        store = place.store
        worker = await node(store)
        waiting = await enqueued(store, dedup=Dedup("d"), payload="[1]")
        newer = new(dedup=Dedup("d", clash=Clash.REPLACE), payload="[2]")
        async with caller.transaction():
            assert await store.enqueue_in(caller, [newer]) == [Duplicate(waiting, changed=True)]
            assert await worker.claim_ids(10) == []

        [task] = await worker.claim(10)
        assert (task.id, task.payload) == (waiting, "[2]")


async def test_a_waiter_that_is_being_changed_is_woken_when_that_is_over() -> None:
    """It was the only one to wake; whoever gave the key back could not wait for the caller."""
    for commits in (True, False):
        async with yard() as place, connected() as caller:
            store = place.store
            worker = await node(store)
            held = await running(store, worker, keys=("k",))
            parked = await enqueued(store, dedup=Dedup("d"), keys=("k",))
            assert (await seen(store, parked)).parked_on == "k"
            opened = caller.transaction()
            await opened.start()
            newer = new(dedup=Dedup("d", clash=Clash.REPLACE), payload="[2]")
            await store.enqueue_in(caller, [newer])
            await complete(store, held)
            assert await worker.claim_ids(10) == []
            assert (await store.promote()).next_due is not None
            await (opened.commit() if commits else opened.rollback())
            await store.promote()

            assert await worker.claim_ids(10) == [parked]
