"""Orders, depths and rates while others are in the middle of something.

Interleavings are made by holding transactions open, not by waiting: what must not wait is simply
called, and what must wait is looked for in the server's list of locks.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.node import NewNode
from taskyard.domain.rate import Rate
from taskyard.domain.task import Claimed, Clash, Dedup, Enqueued, Refused
from taskyard.store.port import ClaimRequest, Store
from taskyard.store.postgres.turn import TURN
from tests.conformance.verbs import Worker, enqueued, ids, new, node
from tests.store.postgres_place import Yard, blocked, connected, someone_waits, yard


async def make(store: Store, name: str, **changes: object) -> None:
    await store.set_lane(name, LaneChange(**changes), actor="ann")  # type: ignore[arg-type]


async def known(store: Store, lane: str) -> None:
    """The lane and the kind have their numbers, and nothing waits."""
    await store.cancel(await enqueued(store, lane=lane), actor="ann")


@pytest.mark.spec("engine-9", "engine-29")
async def test_fifo_the_order_of_commits_is_the_order_of_places() -> None:
    """Who comes second to enqueue waits for the first, though it could commit before it."""
    async with yard() as place, connected() as first, connected() as second:
        store = place.store
        await make(store, "line", order=Order.FIFO)
        await known(store, "line")
        worker = await node(store)
        early, late = new(lane="line"), new(lane="line")
        opened = first.transaction()
        await opened.start()
        await store.enqueue_in(first, [early])
        then = asyncio.create_task(store.enqueue_in(second, [late]))
        await blocked(second)
        assert await worker.claim_ids(10) == []  # and a claim waits for neither

        await opened.commit()
        await then

        assert await worker.claim_ids(10) == [early.id, late.id]


@pytest.mark.spec("engine-9", "engine-29")
async def test_fifo_one_that_is_rolled_back_leaves_the_lane_to_the_next() -> None:
    async with yard() as place, connected() as first:
        store = place.store
        await make(store, "line", order=Order.FIFO)
        await known(store, "line")
        opened = first.transaction()
        await opened.start()
        await store.enqueue_in(first, [new(lane="line")])
        then = asyncio.create_task(enqueued(store, lane="line"))
        await someone_waits(place)
        await opened.rollback()

        assert await (await node(store)).claim_ids(10) == [await then]


@pytest.mark.spec("engine-9", "engine-29")
async def test_other_lanes_do_not_wait_for_a_lane_that_is_held() -> None:
    async with yard() as place, connected() as first:
        store = place.store
        await make(store, "line", order=Order.FIFO)
        for lane in ("line", "default"):
            await known(store, lane)
        async with first.transaction():
            await store.enqueue_in(first, [new(lane="line")])
            task_id = await enqueued(store)

            assert await (await node(store)).claim_ids(10) == [task_id]


@pytest.mark.spec("engine-9")
async def test_fifo_a_head_that_somebody_is_changing_is_waited_for() -> None:
    """Its payload is being replaced by a caller: nobody behind it goes before it."""
    async with yard() as place, connected() as caller:
        store = place.store
        await make(store, "line", order=Order.FIFO)
        worker = await node(store)
        head = await enqueued(store, lane="line", dedup=Dedup("d"))
        behind = await enqueued(store, lane="line")
        other = new(lane="line", payload="[2]", dedup=Dedup("d", clash=Clash.REPLACE))
        async with caller.transaction():
            [answer] = await store.enqueue_in(caller, [other])
            assert getattr(answer, "changed", None) is True
            assert await worker.claim_ids(10) == []

        tasks = await worker.claim(10)
        assert ids(tasks) == [head, behind]
        assert tasks[0].payload == "[2]"


@pytest.mark.spec("engine-9", "engine-29")
async def test_fair_rounds_of_one_group_are_given_once_however_many_enqueue() -> None:
    async with yard(stores=4) as place:
        await make(place.store, "turns", order=Order.FAIR)
        await known(place.store, "turns")
        calls = [
            place.stores[at % 4].enqueue(
                [new(lane="turns", group="ab"[at % 2]) for _ in range(1 + at % 3)]
            )
            for at in range(40)
        ]
        await asyncio.gather(*calls)

        twice = await place.value(
            "SELECT count(*) - count(DISTINCT (grp, rank)) FROM taskyard.ready"
        )
        assert twice == 0


@pytest.mark.spec("engine-3", "engine-29")
async def test_the_depth_counts_who_is_just_being_saved() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        await make(store, "short", max_depth=2)
        await known(store, "short")
        opened = caller.transaction()
        await opened.start()
        await store.enqueue_in(caller, [new(lane="short"), new(lane="short")])
        then = asyncio.create_task(store.enqueue([new(lane="short")]))
        await someone_waits(place)
        await opened.commit()

        assert await then == [Refused("lane short is full: 2 tasks wait, and its max depth is 2")]


@pytest.mark.spec("engine-3", "engine-29")
async def test_the_depth_does_not_count_who_was_rolled_back() -> None:
    async with yard() as place, connected() as caller:
        store = place.store
        await make(store, "short", max_depth=2)
        await known(store, "short")
        opened = caller.transaction()
        await opened.start()
        await store.enqueue_in(caller, [new(lane="short"), new(lane="short")])
        task = new(lane="short")
        then = asyncio.create_task(store.enqueue([task]))
        await someone_waits(place)
        await opened.rollback()

        assert await then == [Enqueued(task.id)]


async def take(store: Store, at: int, number: int) -> list[Claimed]:
    lease = await store.register(NewNode(id=f"node-{at}", kinds=("work",), slots=10))
    tasks: list[Claimed] = []
    for turn in range(number):
        request = ClaimRequest(lease=lease, number=turn + 1, room=1 + at % 3)
        tasks += (await store.claim(request)).tasks
    return tasks


@pytest.mark.spec("engine-3", "engine-29")
@pytest.mark.parametrize("of", ["lane", "key"])
async def test_no_token_is_taken_twice_however_many_claim(of: str) -> None:
    """The rate is so slow that no token comes while this runs."""
    rate = Rate(1, 1e6, 25)
    async with yard(stores=4) as place:
        store = place.store
        if of == "lane":
            await make(store, "slow", rate=rate)
            await store.enqueue([new(lane="slow") for _ in range(60)])
        else:
            await store.set_key_rule("k", 1000, rate=rate, actor="ann")
            await store.enqueue([new(keys=("k",)) for _ in range(60)])

        taken = await asyncio.gather(*(take(place.stores[at % 4], at, 8) for at in range(12)))

        assert len({task.id for tasks in taken for task in tasks}) == 25
        assert sum(map(len, taken)) == 25


@pytest.mark.spec("engine-3", "engine-29")
async def test_buckets_that_are_full_again_are_removed() -> None:
    async with yard() as place:
        store = place.store
        await store.set_key_rule("k*", 1000, rate=Rate(1_000_000, 1.0, 1000), actor="ann")
        worker = await node(store, slots=50)
        await store.enqueue([new(keys=(f"k{at}",)) for at in range(20)])
        assert len(await worker.claim(50)) == 20
        async with asyncio.timeout(30):
            while await place.value("SELECT count(*) FROM taskyard.buckets"):
                await store.promote()


@pytest.mark.spec("engine-9", "engine-12")
async def test_a_lane_that_becomes_ordered_keeps_whoever_was_just_being_saved() -> None:
    """They were given places of the old order; the next claim gives them new ones."""
    for order in (Order.FIFO, Order.FAIR):
        async with yard() as place, connected() as caller:
            store = place.store
            await known(store, "line")
            worker = await node(store)
            task = new(lane="line", priority=9)
            async with caller.transaction():
                await store.enqueue_in(caller, [task])
                await make(store, "line", order=order)
            behind = await enqueued(store, lane="line", priority=1, group="b")

            assert await worker.claim_ids(10) == [task.id, behind]


ORDERS: dict[str, dict[str, object]] = {
    "fifo": {"order": Order.FIFO},
    "fair": {"order": Order.FAIR},
    "ageing": {"ageing": 60.0},
}


@pytest.mark.spec("engine-9", "engine-12")
@pytest.mark.parametrize(("name", "groups"), [*((name, 20) for name in ORDERS), ("fair", 1)])
async def test_a_claim_from_an_ordered_lane_reads_no_more_beside_many(
    name: str, groups: int
) -> None:
    """In pages, not in seconds. In groups, behind which there are some of one task each."""
    pages: list[int] = []
    for size in (1000, 20_000):
        async with yard(unused=True) as place:
            store = place.store
            await make(store, "lane", **ORDERS[name])
            for _ in range(size // 1000):
                tasks = [
                    new(lane="lane", group=f"g{at % groups}", priority=1 + at % 10)
                    for at in range(1000)
                ]
                await store.enqueue(tasks)
            await store.enqueue([new(lane="lane", group=f"small {at}") for at in range(300)])
            worker = await node(store, slots=1000)
            pages.append(sum([await pages_of_a_claim(place, worker) for _ in range(12)][6:]))

    assert pages[1] < 1.5 * pages[0], pages


async def pages_of_a_claim(place: Yard, worker: Worker) -> int:
    worker.number += 1
    nothing: tuple[object, ...] = ([], [], [], [], None, [], [])
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + TURN
    args = (place.store.clock.reading(), *nothing, worker.lease, worker.number, 10, 0)
    [found] = msgspec.json.decode(await place.value(explain, *args))
    return int(found["Plan"]["Shared Hit Blocks"]) + int(found["Plan"]["Shared Read Blocks"])
