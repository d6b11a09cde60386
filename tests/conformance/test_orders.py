"""What a lane starts first: by priority, perhaps with ageing; first in, first out; or in turn."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import IllegalTransition, InvalidOption
from taskyard.domain.explain import Condition
from taskyard.domain.lane import MAX_REORDERED, Lane, Order
from taskyard.domain.rate import Rate
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed, Enqueued, Task, TaskQuery
from taskyard.store.port import ClaimRequest, Store
from tests.conformance.places import Place, StoreTime
from tests.conformance.verbs import (
    Worker,
    audited,
    change,
    complete,
    enqueued,
    failed,
    finish,
    ids,
    lane_of,
    limit,
    new,
    node,
    released,
    running,
    seen,
    state_of,
    succeeded,
)

FIFO, FAIR, PRIORITY = Order.FIFO, Order.FAIR, Order.PRIORITY


async def one_by_one(worker: Worker, count: int) -> list[str]:
    """The order in which one slot would run them."""
    started: list[str] = []
    while len(started) < count and (tasks := await worker.claim(1)):
        started += [task.id for task in tasks]
        await complete(worker.store, *tasks)
    return started


# --- priority, with ageing ---


@pytest.mark.spec("engine-9")
async def test_an_order_can_be_seen(store: Store) -> None:
    assert (await change(store, "default")).order is PRIORITY

    changed = await change(store, "slow", order=PRIORITY, ageing=60.0)

    assert (changed.order, changed.ageing) == (PRIORITY, 60.0)
    assert await lane_of(store, "slow") == changed
    assert (await change(store, "slow", ageing=None)).ageing is None
    assert (await change(store, "slow", order=FIFO)).order is FIFO


@pytest.mark.spec("engine-9")
@pytest.mark.parametrize(("waited", "overtakes"), [(239, False), (240, True), (241, True)])
async def test_with_ageing_a_long_wait_counts_as_much_as_priority(
    store: Store, time: StoreTime, waited: int, overtakes: bool
) -> None:
    worker = await node(store, lease_seconds=1e6)
    await change(store, "default", ageing=60)
    old = await enqueued(store, priority=5)
    await time.advance(waited)
    urgent = await enqueued(store, priority=1)

    assert await worker.claim_ids(10) == ([old, urgent] if overtakes else [urgent, old])


@pytest.mark.spec("engine-9")
async def test_with_ageing_equal_waits_go_by_priority(store: Store) -> None:
    worker = await node(store)
    await change(store, "default", ageing=60)
    made = {p: await enqueued(store, priority=p) for p in (5, 1, 10, 3)}

    assert await worker.claim_ids(10) == [made[p] for p in (1, 3, 5, 10)]


@pytest.mark.spec("engine-9", "engine-7")
@pytest.mark.parametrize("back", ["released", "rescued"])
async def test_with_ageing_a_task_that_comes_back_in_place_has_waited_all_the_time(
    store: Store, time: StoreTime, back: str
) -> None:
    await change(store, "default", ageing=60)
    worker = await node(store, lease_seconds=1e6)
    task = await running(store, worker, priority=5)
    await time.advance(1000)
    urgent = await enqueued(store, priority=1)
    if back == "released":
        await finish(store, released(task))
    else:
        await store.rescue([worker.lease], ended=False)

    other = await node(store, "node-b", lease_seconds=1e6)
    assert await other.claim_ids(10) == [task.id, urgent]


@pytest.mark.spec("engine-9", "engine-7")
async def test_with_ageing_a_retry_begins_to_wait_anew(store: Store, time: StoreTime) -> None:
    await change(store, "default", ageing=60)
    worker = await node(store, lease_seconds=1e6)
    task = await running(store, worker, priority=5)
    await time.advance(1000)
    urgent = await enqueued(store, priority=1)
    await finish(store, failed(task))

    assert await worker.claim_ids(10) == [urgent, task.id]


@pytest.mark.spec("engine-9")
async def test_with_ageing_a_task_begins_to_wait_when_it_is_due(
    store: Store, time: StoreTime
) -> None:
    await change(store, "default", ageing=60)
    worker = await node(store, lease_seconds=1e6)
    later = await enqueued(store, priority=5, delay=1000)
    await time.advance(1000)
    await store.promote()
    urgent = await enqueued(store, priority=1)

    assert await worker.claim_ids(10) == [urgent, later]


@pytest.mark.spec("engine-9", "lifecycle-4")
@pytest.mark.parametrize(("priority", "first"), [(6, True), (7, False)])
async def test_with_ageing_prioritize_keeps_the_time_waited(
    store: Store, time: StoreTime, priority: int, first: bool
) -> None:
    await change(store, "default", ageing=60)
    worker = await node(store, lease_seconds=1e6)
    old = await enqueued(store, priority=2)
    await time.advance(300)
    new_one = await enqueued(store, priority=1)
    await store.prioritize(old, priority, actor="ann")  # 360 or 420 against 360

    assert await worker.claim_ids(10) == ([old, new_one] if first else [new_one, old])


@pytest.mark.spec("engine-9")
async def test_with_ageing_a_parked_task_keeps_its_place(store: Store, time: StoreTime) -> None:
    await change(store, "default", ageing=60)
    worker = await node(store, lease_seconds=1e6)
    held = await running(store, worker, keys=("k",))
    parked = await enqueued(store, priority=5, keys=("k",))
    assert await worker.claim_ids(1) == []
    await time.advance(1000)
    urgent = await enqueued(store, priority=1)
    await complete(store, held)

    assert await worker.claim_ids(1) == [parked]
    assert await worker.claim_ids(1) == [urgent]


@pytest.mark.spec("engine-9")
async def test_ageing_is_a_time(store: Store) -> None:
    with pytest.raises(InvalidOption, match="more than 0"):
        await change(store, "default", ageing=0)


# --- first in, first out ---


@pytest.mark.spec("engine-9")
async def test_fifo_goes_by_arrival_alone(store: Store, elsewhere: Store) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store, kinds=("work", "mail"))
    made = [
        await enqueued(place, kind, lane="line", priority=priority, group=kind)
        for place, kind, priority in (
            (store, "work", 9),
            (elsewhere, "mail", 1),
            (store, "mail", 5),
            (elsewhere, "work", 2),
        )
    ]

    assert await one_by_one(worker, 10) == made


@pytest.mark.spec("engine-9")
async def test_fifo_gives_several_in_one_claim_each_the_head_in_turn(store: Store) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store, kinds=("work", "mail"))
    made = [
        await enqueued(store, kind, lane="line", keys=keys)
        for kind, keys in (("work", ()), ("mail", ("k",)), ("mail", ()), ("work", ("k",)))
    ]
    behind = await enqueued(store, lane="line")

    assert await worker.claim_ids(10) == made[:3]  # the fourth lacks its key, and all wait for it
    assert (await seen(store, behind)).state is State.QUEUED


@pytest.mark.spec("engine-9")
async def test_fifo_waits_for_the_key_of_its_head(store: Store) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    head = await enqueued(store, lane="line", keys=("k",), priority=9)
    behind = [await enqueued(store, lane="line", priority=1) for _ in range(3)]
    other = await enqueued(store, priority=10)

    assert await worker.claim_ids(10) == [other]

    await complete(store, held)
    assert await worker.claim_ids(10) == [head, *behind]


@pytest.mark.spec("engine-9")
async def test_fifo_parks_nothing(store: Store) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    head, second = [await enqueued(store, lane="line", keys=("k",)) for _ in range(2)]
    assert (await seen(store, head)).parked_on is None  # nor by enqueue
    assert await worker.claim_ids(10) == []

    assert {(await seen(store, one)).parked_on for one in (head, second)} == {None}
    await limit(store, "k", 2)
    assert await worker.claim_ids(10) == [head]
    await complete(store, held)
    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-9", "engine-4")
async def test_fifo_waits_for_a_node_that_serves_its_head(store: Store) -> None:
    await change(store, "line", order=FIFO)
    plain = await node(store, "plain")
    head = await enqueued(store, lane="line", requires=("gpu",))
    behind = await enqueued(store, lane="line")
    assert await plain.claim_ids(10) == []

    able = await node(store, "able", capabilities=("gpu",), slots=1)
    assert await able.claim_ids(10) == [head]
    assert await plain.claim_ids(10) == [behind]


@pytest.mark.spec("engine-9")
async def test_fifo_waits_for_a_kind_nobody_serves(store: Store) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store)
    head = await enqueued(store, "unheard of", lane="line")
    behind = await enqueued(store, lane="line")
    assert await worker.claim_ids(10) == []

    await store.cancel(head, actor="ann")

    assert await worker.claim_ids(10) == [behind]


@pytest.mark.spec("engine-9")
async def test_fifo_has_a_head_for_every_lane(store: Store) -> None:
    for lane in ("one", "two"):
        await change(store, lane, order=FIFO)
    worker = await node(store)
    await running(store, worker, keys=("k",))
    await enqueued(store, lane="one", keys=("k",))
    free = [await enqueued(store, lane="two") for _ in range(2)]
    await enqueued(store, lane="one")

    assert await worker.claim_ids(10) == free


@pytest.mark.spec("engine-10", "engine-9")
@pytest.mark.parametrize("waits_for", ["kind", "key"])
async def test_fifo_lanes_whose_heads_wait_keep_nobody_from_the_others(
    store: Store, waits_for: str
) -> None:
    """However many they are: each claim finds what may run."""
    lanes = [Lane(name=f"line {n}", order=FIFO) for n in range(250)]
    await store.import_settings(lanes=lanes)
    worker = await node(store, slots=2)
    await running(store, worker, keys=("k",))
    blocked = {"kind": new("unheard of"), "key": new(keys=("k",))}[waits_for]
    heads = [replace(blocked, id=f"head of {lane.name}", lane=lane.name) for lane in lanes]
    await store.enqueue(heads)

    for _ in range(3):
        free = await enqueued(store, lane="free")
        claim = await worker.ask(1)
        assert ids(claim.tasks) == [free]
        await complete(store, *claim.tasks)


@pytest.mark.spec("engine-9", "engine-6")
@pytest.mark.parametrize("room", [1, 10])
async def test_fifo_expires_and_passes_a_late_head(
    store: Store, time: StoreTime, room: int
) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store)
    await running(store, worker, keys=("k",))
    soon = await store.now() + SECOND
    late = [await enqueued(store, lane="line", deadline=soon, keys=("k",)) for _ in range(3)]
    await enqueued(store, "unheard of", lane="line", deadline=soon)
    behind = await enqueued(store, lane="line")
    await time.advance(2)

    assert await worker.claim_ids(room) == [behind]
    for task_id in late:
        assert await state_of(store, task_id) == (State.FAILED, Reason.EXPIRED)


@pytest.mark.spec("engine-9", "engine-3")
async def test_fifo_keeps_to_the_capacity(store: Store) -> None:
    await change(store, "line", order=FIFO, capacity=2)
    worker = await node(store)
    made = [await enqueued(store, lane="line", priority=9 - at) for at in range(4)]

    held = await worker.claim(10)

    assert [task.id for task in held] == made[:2]
    await complete(store, held[1])
    assert await worker.claim_ids(10) == [made[2]]


@pytest.mark.spec("engine-9", "engine-5")
async def test_fifo_a_promoted_task_comes_by_its_arrival(store: Store, time: StoreTime) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store)
    early = await enqueued(store, lane="line", delay=5)
    late = await enqueued(store, lane="line")
    await time.advance(6)
    await store.promote()

    assert await worker.claim_ids(10) == [early, late]


@pytest.mark.spec("engine-9", "engine-25")
async def test_fifo_a_resumed_task_comes_by_its_arrival(store: Store) -> None:
    await change(store, "line", order=FIFO)
    worker = await node(store)
    first, second = [await enqueued(store, lane="line") for _ in range(2)]
    await store.pause(first, actor="ann")
    third = await enqueued(store, lane="line")
    await store.resume(first, actor="ann")

    assert await worker.claim_ids(10) == [first, second, third]


@pytest.mark.spec("engine-9", "engine-7")
async def test_fifo_released_and_rescued_come_first_and_retried_last(store: Store) -> None:
    await change(store, "line", order=FIFO)
    worker, dead = await node(store), await node(store, "node-b")
    tasks = [await running(store, worker, lane="line") for _ in range(2)]
    lost = await running(store, dead, lane="line")
    waiting = await enqueued(store, lane="line")
    await finish(store, failed(tasks[0]))
    await finish(store, released(tasks[1]))
    await store.rescue([dead.lease])

    assert await worker.claim_ids(10) == [tasks[1].id, lost.id, waiting, tasks[0].id]


@pytest.mark.spec("engine-9", "lifecycle-4")
async def test_fifo_knows_no_priority(store: Store) -> None:
    await change(store, "line", order=FIFO)
    queued, pending = (
        await enqueued(store, lane="line"),
        await enqueued(store, lane="line", delay=9),
    )

    for task_id in (queued, pending):
        with pytest.raises(
            InvalidOption,
            match="lane line is first in, first out: its tasks keep the order they came in",
        ):
            await store.prioritize(task_id, 1, actor="ann")

        assert (await seen(store, task_id)).priority == 5
    assert await audited(store, "prioritize") == []


@pytest.mark.spec("engine-11", "engine-9")
@pytest.mark.parametrize(
    "changes", [{"order": FIFO}, {"order": FAIR}, {"rate": Rate(100, 1, 100)}], ids=str
)
async def test_nothing_is_claimed_ahead_where_the_order_or_the_rate_would_suffer(
    store: Store, changes: dict[str, object]
) -> None:
    await change(store, "special", **changes)
    worker = await node(store, slots=1)
    made = [await enqueued(store, lane="special") for _ in range(4)]

    claim = await worker.ask(1, ahead=3)

    assert ([task.id for task in claim.tasks], claim.ahead) == (made[:1], frozenset())


@pytest.mark.spec("engine-14", "lifecycle-6", "engine-9")
async def test_fifo_explains_who_is_the_head(store: Store) -> None:
    await change(store, "line", order=FIFO)
    await node(store)
    head = await enqueued(store, "unheard of", lane="line")
    behind = await enqueued(store, lane="line")

    [wait] = (await store.explain(behind)).waits

    assert (wait.condition, wait.code) == (Condition.ORDER, "not_head")
    assert wait.text == f"lane line is first in, first out, and {head} is its head"
    assert wait.figures == {"head": head, "before": 1}
    [why] = (await store.explain(head)).waits
    assert why.code == "no_node"


class Given(NamedTuple):
    """Tasks that came or went by one call, and when it was made and answered."""

    asked: int
    answered: int
    ids: list[str]


def check_in_order(given: Sequence[Given], place: dict[str, int]) -> None:
    """Each call has a row of places without a gap, and the later of two calls the later places."""
    by_answer = sorted(given, key=lambda one: one.answered)
    answered = [one.answered for one in by_answer]
    rows = [[place[task_id] for task_id in one.ids] for one in by_answer]
    last = list(itertools.accumulate((row[-1] for row in rows), max))
    for one, row in zip(by_answer, rows, strict=True):
        assert row == list(range(row[0], row[0] + len(row)))
        before = bisect_left(answered, one.asked)
        assert before == 0 or last[before - 1] < row[0]


async def places(store: Store) -> dict[str, int]:
    """Where each task stands among all, by its seq."""
    tasks: list[Task] = []
    while page := await store.find(TaskQuery(limit=1000, after=tasks[-1].no if tasks else None)):
        tasks += page
    in_order = sorted(tasks, key=lambda task: task.seq)
    return {task.id: at for at, task in enumerate(in_order)}


@pytest.mark.spec("engine-9")
async def test_fifo_is_strict_with_many_that_enqueue_and_many_that_claim(place: Place) -> None:
    enqueuers, claimers, batches, size = 4, 8, 50, 50
    wanted = enqueuers * batches * size
    clock = itertools.count()
    came: list[Given] = []
    started: list[Given] = []

    async def bring(store: Store) -> None:
        for _ in range(batches):
            tasks = [new(lane="line", priority=1 + at % 10) for at in range(size)]
            asked = next(clock)
            assert await store.enqueue(tasks) == [Enqueued(task.id) for task in tasks]
            came.append(Given(asked, next(clock), ids(tasks)))

    async def take(store: Store, at: int) -> None:
        worker = await node(store, f"node-{at}", slots=40, lease_seconds=1e6)
        running: list[Claimed] = []
        while sum(len(one.ids) for one in started) < wanted:
            asked, worker.number = next(clock), worker.number + 1
            request = ClaimRequest(lease=worker.lease, number=worker.number, room=1 + at * 5)
            turn = await store.turn([succeeded(task) for task in running], request)
            running = turn.claim.tasks
            if running:
                started.append(Given(asked, next(clock), ids(running)))

    async with AsyncExitStack() as stack:
        views = [place.view() for _ in range(4)]
        for view in views:
            await view.open()
            stack.push_async_callback(view.close)
        await change(views[0], "line", order=FIFO)
        async with asyncio.TaskGroup() as group:
            for at in range(enqueuers):
                group.create_task(bring(views[at % 2]))
            for at in range(claimers):
                group.create_task(take(views[2 + at % 2], at))
        stands = await places(views[0])

    assert len(stands) == wanted == len({task_id for one in started for task_id in one.ids})
    check_in_order(came, stands)
    check_in_order(started, stands)


# --- groups in rotation ---


async def of_groups(store: Store, groups: str, **options: Any) -> list[str]:
    """One task for each letter, the letter being its group."""
    return [await enqueued(store, lane="turns", group=group, **options) for group in groups]


async def groups_of(worker: Worker, count: int) -> str:
    """The groups of the next tasks, as one slot would run them."""
    started = await one_by_one(worker, count)
    return "".join([(await seen(worker.store, task_id)).group or "-" for task_id in started])


@pytest.mark.spec("engine-9")
@pytest.mark.parametrize("room", [1, 2, 10])
async def test_fair_groups_take_turns(store: Store, room: int) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store, slots=100)
    a1, a2, a3, b1, b2, c1, a4 = await of_groups(store, "aaabbca")
    started: list[str] = []
    while tasks := await worker.claim(room):
        started += ids(tasks)

    assert started == [a1, b1, c1, a2, b2, a3, a4]


@pytest.mark.spec("engine-9")
async def test_fair_tasks_of_one_call_take_turns(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    await store.enqueue([new(lane="turns", group=group) for group in "aaabbb"])
    await store.enqueue([new(lane="turns", group=group) for group in "acbc"])

    assert await groups_of(worker, 20) == "abc" + "abc" + "ab" + "ab"


@pytest.mark.spec("engine-9")
async def test_fair_tasks_without_a_group_are_a_group(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    await store.enqueue([new(lane="turns", group=group) for group in ("", "", "", "a", "a")])

    assert await groups_of(worker, 20) == "-a-a-"


@pytest.mark.spec("engine-9")
async def test_fair_a_group_that_comes_later_begins_with_the_present_round(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    await of_groups(store, "a" * 8)
    assert await groups_of(worker, 4) == "aaaa"
    await of_groups(store, "bbb")  # it has saved nothing up

    assert await groups_of(worker, 20) == "ababab" + "a"


@pytest.mark.spec("engine-9")
async def test_fair_a_group_that_was_away_has_lost_nothing_and_saved_nothing(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    await of_groups(store, "aab")
    assert await groups_of(worker, 2) == "ab"
    await of_groups(store, "aabb")  # a waits for rounds 1, 2, 3; b joins in round 1

    assert await groups_of(worker, 20) == "abab" + "a"


@pytest.mark.spec("engine-9")
async def test_fair_priority_counts_inside_a_group_only(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    a = {p: await enqueued(store, lane="turns", group="a", priority=p) for p in (5, 9, 1)}
    b = {p: await enqueued(store, lane="turns", group="b", priority=p) for p in (10, 8)}

    assert await one_by_one(worker, 20) == [a[1], b[8], a[5], b[10], a[9]]


@pytest.mark.spec("engine-9")
async def test_fair_priority_counts_within_one_claim_too(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    a = {p: await enqueued(store, lane="turns", group="a", priority=p) for p in (5, 9, 1)}
    b = {p: await enqueued(store, lane="turns", group="b", priority=p) for p in (10, 8)}

    assert await worker.claim_ids(3) == [a[1], b[8], a[5]]
    assert await worker.claim_ids(10) == [b[10], a[9]]


@pytest.mark.spec("engine-9")
async def test_fair_the_most_urgent_of_a_group_is_found_far_back(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    await store.enqueue([new(lane="turns", group="a") for _ in range(300)])
    urgent = await enqueued(store, lane="turns", group="a", priority=1)
    [other] = await of_groups(store, "b")

    assert await one_by_one(worker, 2) == [urgent, other]


@pytest.mark.spec("engine-9", "lifecycle-4")
async def test_fair_prioritize_changes_the_place_inside_the_group(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    a1, a2, b1, b2 = await of_groups(store, "aabb")

    await store.prioritize(a2, 1, actor="ann")
    await store.prioritize(b1, 10, actor="ann")

    assert await one_by_one(worker, 20) == [a2, b2, a1, b1]


@pytest.mark.spec("engine-9")
async def test_fair_what_is_blocked_is_passed_over_and_keeps_its_turn(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store, slots=2)
    held = await running(store, worker, keys=("k",))
    b1, b2 = await of_groups(store, "bb")
    [blocked] = await of_groups(store, "a", keys=("k",))
    a2, c1 = await of_groups(store, "ac")
    assert await one_by_one(worker, 2) == [b1, c1]
    await complete(store, held)

    assert await one_by_one(worker, 20) == [blocked, b2, a2]


@pytest.mark.spec("engine-9", "engine-4")
async def test_fair_a_node_looks_at_what_it_serves(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    post = await node(store, "post", kinds=("mail",))
    work = await enqueued(store, lane="turns", group="a", priority=1)
    a = await enqueued(store, "mail", lane="turns", group="a", priority=5)
    b = [await enqueued(store, "mail", lane="turns", group="b") for _ in range(2)]

    assert await one_by_one(post, 20) == [b[0], a, b[1]]
    assert await (await node(store, "hand")).claim_ids(10) == [work]


@pytest.mark.spec("engine-9", "engine-7")
@pytest.mark.parametrize("back", ["released", "rescued"])
async def test_fair_a_task_that_comes_back_in_place_has_its_turn(store: Store, back: str) -> None:
    await change(store, "turns", order=FAIR)
    dead, worker = await node(store, "dead"), await node(store)
    a1, a2, b1, b2, b3 = await of_groups(store, "aabbb")
    task = await dead.claim_one()
    assert task.id == a1
    assert await one_by_one(worker, 2) == [b1, a2]
    if back == "released":
        await finish(store, released(task))
    else:
        await store.rescue([dead.lease], ended=False)

    assert await one_by_one(worker, 20) == [a1, b2, b3]


@pytest.mark.spec("engine-9", "engine-7")
async def test_fair_a_retry_joins_the_end_of_its_group(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    a1, a2, b1, b2, b3, b4 = await of_groups(store, "aabbbb")
    task = await worker.claim_one()
    assert task.id == a1
    await finish(store, failed(task))

    assert await one_by_one(worker, 20) == [b1, a2, b2, b3, a1, b4]


@pytest.mark.spec("engine-9", "engine-5")
async def test_fair_a_task_joins_its_group_when_it_is_due(store: Store, time: StoreTime) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store)
    [later] = await of_groups(store, "a", delay=5)
    b = await of_groups(store, "bbbb")
    assert await one_by_one(worker, 2) == b[:2]
    await time.advance(5)
    await store.promote()

    assert await one_by_one(worker, 20) == [later, *b[2:]]  # round 2; it is the older one


@pytest.mark.spec("engine-9", "engine-3")
async def test_fair_keeps_to_the_capacity(store: Store) -> None:
    await change(store, "turns", order=FAIR, capacity=2)
    worker = await node(store)
    a1, _, b1 = await of_groups(store, "aab")

    assert await worker.claim_ids(10) == [a1, b1]


@pytest.mark.spec("engine-9")
async def test_fair_a_huge_group_does_not_hold_up_the_small_ones(store: Store) -> None:
    await change(store, "turns", order=FAIR)
    worker = await node(store, slots=20)
    for _ in range(10):
        await store.enqueue([new(lane="turns", group="huge") for _ in range(1000)])
    small = [f"small {number}" for number in range(99)]
    tasks = [new(lane="turns", group=group) for group in small for _ in range(10)]
    await store.enqueue(tasks)
    left, started = {task.id for task in tasks}, 0
    running: list[Claimed] = []
    while left:
        await complete(store, *running)
        running = await worker.claim(20)
        left -= set(ids(running))
        started += len(running)

    assert started - len(tasks) <= 200


# --- another order ---


@pytest.mark.spec("engine-9", "lifecycle-17")
async def test_a_new_order_is_written_down(store: Store) -> None:
    await change(store, "slow", order=FIFO)
    await change(store, "slow", order=PRIORITY, ageing=60)
    await change(store, "slow", ageing=None)
    await change(store, "slow", order=FAIR)
    await change(store, "slow", order=PRIORITY, ageing=0.5)
    await change(store, "slow", order=FIFO)  # where ageing means nothing

    details = ["fifo", "priority, ageing 60 s", "priority", "fair", "priority, ageing 0.5 s"]
    assert await audited(store, "set_order") == [
        ("ann", "set_order", "lane:slow", detail) for detail in (*details, "fifo")
    ]


@pytest.mark.spec("engine-9")
async def test_a_new_order_counts_for_what_waits_already(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    made = {
        (group, priority): await enqueued(store, lane="turns", group=group, priority=priority)
        for group, priority in (("a", 5), ("a", 2), ("b", 9), ("b", 1), ("a", 3))
    }
    tries = {
        PRIORITY: [("b", 1), ("a", 2), ("a", 3), ("a", 5), ("b", 9)],
        FIFO: [("a", 5), ("a", 2), ("b", 9), ("b", 1), ("a", 3)],
        FAIR: [("a", 2), ("b", 1), ("a", 3), ("b", 9), ("a", 5)],
    }
    for order in (FIFO, FAIR, PRIORITY, FIFO, PRIORITY):
        await change(store, "turns", order=order)
        claimed = [await worker.claim_one() for _ in made]
        for task in reversed(claimed):
            await finish(store, released(task))

        assert ids(claimed) == [made[which] for which in tries[order]], order


@pytest.mark.spec("engine-9")
async def test_from_priority_to_fair_groups_keep_the_order_of_their_tasks(store: Store) -> None:
    worker = await node(store)
    a5, a1, b9, b2 = [
        await enqueued(store, lane="turns", group=group, priority=priority)
        for group, priority in (("a", 5), ("a", 1), ("b", 9), ("b", 2))
    ]
    await change(store, "turns", order=FAIR)

    assert await one_by_one(worker, 10) == [a1, b2, a5, b9]


@pytest.mark.spec("engine-9")
async def test_ageing_counts_the_time_since_it_was_set(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    low, high = await enqueued(store, priority=9), await enqueued(store, priority=1)
    await change(store, "default", ageing=60)
    await time.advance(600)
    late = await enqueued(store, priority=1)

    assert await worker.claim_ids(10) == [high, low, late]


@pytest.mark.spec("engine-9")
async def test_fifo_unparks_what_waits_for_a_key(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    parked = [await enqueued(store, lane="line", keys=("k",)) for _ in range(3)]
    free = await enqueued(store, lane="line")
    await change(store, "line", order=FIFO)

    assert await worker.claim_ids(10) == []
    assert {(await seen(store, task_id)).parked_on for task_id in parked} == {None}
    await complete(store, held)
    assert await worker.claim_ids(10) == parked[:1]
    await limit(store, "k", 5)
    assert await worker.claim_ids(10) == [*parked[1:], free]


@pytest.mark.spec("engine-9")
async def test_from_fifo_to_priority_what_is_free_goes(store: Store) -> None:
    worker = await node(store)
    await running(store, worker, keys=("k",))
    await change(store, "line", order=FIFO)
    await enqueued(store, lane="line", keys=("k",))
    free = await enqueued(store, lane="line")
    assert await worker.claim_ids(10) == []

    await change(store, "line", order=PRIORITY)

    assert await worker.claim_ids(10) == [free]


@pytest.mark.spec("engine-9")
async def test_the_order_of_a_long_lane_stays(store: Store) -> None:
    await change(store, "slow", order=FIFO)
    await store.enqueue([new(lane="slow") for _ in range(MAX_REORDERED)])
    await enqueued(store, lane="slow", delay=60)
    await change(store, "slow", order=PRIORITY)
    await enqueued(store, lane="slow")

    message = "lane slow has 1001 queued tasks; its order can be changed while at most 1,000 are"
    with pytest.raises(IllegalTransition, match=message):
        await change(store, "slow", order=FIFO, capacity=7)
    with pytest.raises(IllegalTransition, match=message):
        await change(store, "slow", ageing=60)

    lane = await lane_of(store, "slow")
    assert (lane.order, lane.ageing, lane.capacity) == (PRIORITY, None, None)
    assert (await change(store, "slow", order=PRIORITY, capacity=7)).capacity == 7


@pytest.mark.spec("engine-9")
async def test_what_runs_while_the_order_changes_comes_back_in_the_new_order(store: Store) -> None:
    worker = await node(store)
    low = await running(store, worker, lane="line", priority=9)
    high = await enqueued(store, lane="line", priority=1)
    await change(store, "line", order=FIFO)
    await finish(store, released(low))

    assert await worker.claim_ids(10) == [low.id, high]
