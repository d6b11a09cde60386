"""A task that depends on others starts when they have ended, or ends with them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import IllegalTransition, InvalidOption, StaleAttempt
from taskyard.domain.explain import Condition
from taskyard.domain.lane import Order
from taskyard.domain.outcome import Died
from taskyard.domain.retention import Retention
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed, Dedup, Duplicate, Enqueued, OnFailure, Refused
from taskyard.store.port import Promoted, Store
from tests.conformance.places import StoreTime
from tests.conformance.pruning import AT_ONCE
from tests.conformance.verbs import (
    BROKEN,
    Worker,
    audited,
    change,
    complete,
    enqueued,
    failed,
    finish,
    new,
    node,
    released,
    running,
    seen,
    state_of,
    stopped,
    verdict,
)

CREATED = (State.PENDING, Reason.CREATED)
FREE = (State.QUEUED, Reason.DEPENDENCY)
GIVEN_UP = (State.CANCELLED, Reason.DEPENDENCY)


# --- to wait ---


@pytest.mark.spec("engine-17", "engine-5")
async def test_a_task_waits_until_what_it_depends_on_has_ended(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,))

    kept = await seen(store, dependent)
    assert (kept.state, kept.reason) == CREATED
    assert (kept.depends_on, kept.on_failure, kept.waits_for) == (
        (task.id,),
        OnFailure.CANCEL,
        1,
    )
    assert await store.promote() == Promoted(0, None)
    assert await worker.claim_ids(10) == []

    await complete(store, task)

    kept = await seen(store, dependent)
    assert (kept.state, kept.reason, kept.waits_for) == (*FREE, 0)
    assert kept.depends_on == (task.id,)
    assert await worker.claim_ids(10) == [dependent]


@pytest.mark.spec("engine-17")
async def test_fan_in_waits_for_all(store: Store) -> None:
    worker = await node(store)
    tasks = [await running(store, worker) for _ in range(3)]
    names = tuple(task.id for task in reversed(tasks))
    dependent = await enqueued(store, depends_on=names)
    for left, task in zip((2, 1), tasks, strict=False):
        await complete(store, task)
        kept = await seen(store, dependent)
        assert (kept.state, kept.waits_for, kept.depends_on) == (State.PENDING, left, names)

    await complete(store, tasks[2])

    assert await state_of(store, dependent) == FREE


@pytest.mark.spec("engine-17")
async def test_fan_out_lets_all_go(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    dependents = [await enqueued(store, depends_on=(task.id,), priority=9 - at) for at in range(3)]
    await complete(store, task)

    assert await worker.claim_ids(10) == dependents[::-1]


@pytest.mark.spec("engine-17")
async def test_several_that_end_in_one_call_count_each(store: Store) -> None:
    worker = await node(store)
    tasks = [await running(store, worker) for _ in range(3)]
    dependent = await enqueued(store, depends_on=tuple(task.id for task in tasks))

    await complete(store, *tasks)

    assert await state_of(store, dependent) == FREE


@pytest.mark.spec("engine-17", "engine-15")
async def test_a_chain_in_one_call(store: Store) -> None:
    worker = await node(store)
    names = [f"step {at}" for at in range(4)]
    tasks = [new(id=name, depends_on=tuple(names[at - 1 : at])) for at, name in enumerate(names)]
    assert [task.depends_on for task in tasks][:2] == [(), ("step 0",)]

    assert await store.enqueue(tasks) == [Enqueued(name) for name in names]

    for name in names:
        task = await worker.claim_one()
        assert task.id == name
        await complete(store, task)


@pytest.mark.spec("engine-17")
async def test_one_that_has_ended_well_is_not_waited_for(store: Store) -> None:
    worker = await node(store)
    done = await running(store, worker)
    await complete(store, done)
    left = await running(store, worker)

    free = await enqueued(store, depends_on=(done.id,))
    held = await enqueued(store, depends_on=(done.id, left.id))

    assert await state_of(store, free) == (State.QUEUED, Reason.CREATED)
    kept = await seen(store, held)
    assert (kept.waits_for, kept.depends_on) == (1, (done.id, left.id))


@pytest.mark.spec("engine-17")
async def test_one_that_comes_back_is_still_waited_for(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,))
    await finish(store, failed(task))
    task = await worker.claim_one()
    await finish(store, released(task))
    task = await worker.claim_one()
    assert (await seen(store, dependent)).waits_for == 1

    await complete(store, task)

    assert await state_of(store, dependent) == FREE


@pytest.mark.spec("engine-17", "engine-5")
async def test_a_dependent_for_later_waits_for_its_time_too(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,), delay=10)
    run_at = (await seen(store, dependent)).run_at
    await complete(store, task)
    kept = await seen(store, dependent)
    assert (kept.state, kept.waits_for) == (State.PENDING, 0)
    assert await store.promote() == Promoted(0, run_at)
    await time.advance(10)

    assert await store.promote() == Promoted(1, None)

    assert await state_of(store, dependent) == (State.QUEUED, Reason.DUE)
    assert await worker.claim_ids(10) == [dependent]


@pytest.mark.spec("engine-17", "engine-5")
async def test_a_dependent_whose_time_has_come_still_waits(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,), delay=10)
    await time.advance(20)
    assert await store.promote() == Promoted(0, None)
    assert (await seen(store, dependent)).state is State.PENDING

    await complete(store, task)

    assert await worker.claim_ids(10) == [dependent]


@pytest.mark.spec("engine-17", "engine-10")
async def test_a_dependent_parks_as_any_other(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,), keys=("k",))
    assert [(key.name, key.waiting) for key in await store.keys()] == [("k", 0)]
    await complete(store, task)
    assert await worker.claim_ids(10) == []

    await complete(store, held)

    assert await worker.claim_ids(10) == [dependent]


@pytest.mark.spec("engine-17", "engine-9")
@pytest.mark.parametrize("order", [Order.FIFO, Order.FAIR, Order.PRIORITY])
async def test_a_dependent_has_the_place_of_its_arrival(store: Store, order: Order) -> None:
    await change(store, "line", order=order)
    worker = await node(store)
    task = await running(store, worker)
    early = await enqueued(store, lane="line", depends_on=(task.id,))
    late = await enqueued(store, lane="line", group="other")
    await complete(store, task)

    assert await worker.claim_ids(10) == [early, late]


@pytest.mark.spec("engine-17", "engine-7")
async def test_in_a_fair_lane_a_dependent_joins_the_present_round(store: Store) -> None:
    await change(store, "turns", order=Order.FAIR)
    worker = await node(store)
    task = await running(store, worker)
    early = await enqueued(store, lane="turns", group="a", depends_on=(task.id,))
    others = [await enqueued(store, lane="turns", group="b") for _ in range(3)]
    assert await worker.claim_ids(1) == others[:1]
    await complete(store, task)

    assert await worker.claim_ids(10) == [early, *others[1:]]


@pytest.mark.spec("engine-17", "engine-6")
async def test_a_dependent_can_expire(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,), deadline=await store.now() + SECOND)
    third = await enqueued(store, depends_on=(dependent,), on_failure=OnFailure.RUN)
    await time.advance(2)

    assert await store.expire() == 1

    assert await state_of(store, dependent) == (State.FAILED, Reason.EXPIRED)
    assert await state_of(store, third) == FREE
    await complete(store, task)
    assert await state_of(store, dependent) == (State.FAILED, Reason.EXPIRED)


# --- what it names ---


@pytest.mark.spec("engine-17", "engine-15")
async def test_a_name_nobody_has_is_refused_and_nothing_is_saved(store: Store) -> None:
    known = await enqueued(store)
    tasks = [new(), new(depends_on=(known, "nobody")), new()]

    with pytest.raises(
        InvalidOption,
        match="depends_on names task nobody, which does not exist; it may have been pruned",
    ):
        await store.enqueue(tasks)

    assert [await store.get(task.id) for task in tasks] == [None] * 3
    assert (await store.counts())[State.QUEUED] == 1


@pytest.mark.spec("engine-17", "engine-15")
async def test_a_name_that_comes_later_in_the_call_is_nobodys(store: Store) -> None:
    with pytest.raises(InvalidOption, match="depends_on names task second"):
        await store.enqueue([new(id="first", depends_on=("second",)), new(id="second")])

    assert not any((await store.counts()).values())


@pytest.mark.spec("engine-17", "engine-15")
async def test_one_that_was_a_duplicate_stands_for_the_one_that_is_there(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker, dedup=Dedup("nightly"))
    again = new(id="again", dedup=Dedup("nightly"))
    dependent = new(depends_on=("again",))

    answers = await store.enqueue([again, dependent])

    assert answers == [Duplicate(task.id), Enqueued(dependent.id)]
    kept = await seen(store, dependent.id)
    assert (kept.depends_on, kept.waits_for) == ((task.id,), 1)
    await complete(store, task)
    assert await state_of(store, dependent.id) == FREE


@pytest.mark.spec("engine-17", "engine-15")
async def test_two_names_that_stand_for_one_task_are_one_dependency(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker, dedup=Dedup("nightly"))
    again = [new(id=name, dedup=Dedup("nightly")) for name in ("one", "two")]
    dependent = new(depends_on=("one", task.id, "two"))

    answers = await store.enqueue([*again, dependent])

    assert answers == [Duplicate(task.id), Duplicate(task.id), Enqueued(dependent.id)]
    assert (await seen(store, dependent.id)).waits_for == 1
    await complete(store, task)
    assert await state_of(store, dependent.id) == FREE


@pytest.mark.spec("engine-17", "engine-16")
async def test_a_repeated_call_is_known_as_a_whole(store: Store) -> None:
    tasks = [new(id="first"), new(id="second", depends_on=("first",))]
    await store.enqueue(tasks)

    assert await store.enqueue(tasks) == [Duplicate("first"), Duplicate("second")]
    assert (await seen(store, "second")).waits_for == 1


@pytest.mark.spec("engine-17", "engine-3")
async def test_one_that_was_refused_takes_its_dependents_along(store: Store) -> None:
    await change(store, "short", max_depth=0)
    tasks = [
        new(id="refused", lane="short"),
        new(id="second", depends_on=("refused",)),
        new(id="third", depends_on=("second",)),
        new(id="free"),
    ]

    answers = await store.enqueue(tasks)

    told = Refused("it depends on a task that was refused")
    assert isinstance(answers[0], Refused)
    assert answers[1:] == [told, told, Enqueued("free")]
    assert (await store.counts())[State.PENDING] == 0


@pytest.mark.spec("engine-17", "engine-15")
async def test_a_clash_is_told_before_a_refused_dependency(store: Store) -> None:
    await change(store, "short", max_depth=0)
    known = await enqueued(store, dedup=Dedup("nightly"))

    answers = await store.enqueue(
        [new(id="refused", lane="short"), new(dedup=Dedup("nightly"), depends_on=("refused",))]
    )

    assert answers[1] == Duplicate(known)


@pytest.mark.spec("engine-17", "engine-3")
async def test_a_dependent_counts_for_the_depth(store: Store) -> None:
    await change(store, "short", max_depth=1)
    first, second, third = new(), new(lane="short"), new(lane="short")
    dependents = [msgspec.structs.replace(t, depends_on=(first.id,)) for t in (second, third)]

    answers = await store.enqueue([first, *dependents])

    assert answers[:2] == [Enqueued(first.id), Enqueued(second.id)]
    assert isinstance(answers[2], Refused)


@pytest.mark.spec("engine-17", "engine-19")
async def test_a_stale_attempt_leaves_no_dependent(store: Store) -> None:
    task = await running(store, await node(store))
    await complete(store, task)

    with pytest.raises(StaleAttempt):
        await store.enqueue([new(depends_on=(task.id,))], by=task.hold)


@pytest.mark.spec("engine-17")
async def test_a_child_may_depend_on_who_makes_it(store: Store) -> None:
    task = await running(store, await node(store))
    child = new(depends_on=(task.id,))
    assert await store.enqueue([child], by=task.hold) == [Enqueued(child.id)]

    await complete(store, task)

    assert await state_of(store, child.id) == FREE


# --- how it ended ---


async def end_badly(store: Store, worker: Worker, time: StoreTime, how: str) -> str:
    """A task that ends as asked for, with its dependents `cancels` and `runs`."""
    deadline = await store.now() + SECOND if how.startswith("expire") else None
    task_id = await enqueued(store, id="first", deadline=deadline, max_charged=1)
    for name, on_failure in (("cancels", OnFailure.CANCEL), ("runs", OnFailure.RUN)):
        await enqueued(store, id=name, depends_on=(task_id,), on_failure=on_failure, priority=1)
    match how:
        case "cancel":
            await store.cancel(task_id, actor="ann")
        case "expire":
            await time.advance(2)
            assert await store.expire() == 1
        case "expired at claim":
            await time.advance(2)
            await worker.claim(1)
            await store.expire()
        case _:
            await end_running(store, worker, await worker.claim_one(), how)
    return task_id


async def end_running(store: Store, worker: Worker, task: Claimed, how: str) -> None:
    match how:
        case "failed":
            await finish(store, failed(task, retry=False))
        case "stopped":
            await finish(store, stopped(task))
        case "died":
            await finish(store, verdict(task, Died(BROKEN, losses=2)))
        case "lost":
            await store.rescue([worker.lease])
        case "cancelled while lost":
            await store.cancel(task.id, actor="ann")
            await store.rescue([worker.lease])
        case _:
            raise AssertionError(how)


WAYS = {
    "cancel": State.CANCELLED,
    "expire": State.FAILED,
    "expired at claim": State.FAILED,
    "failed": State.FAILED,
    "stopped": State.CANCELLED,
    "died": State.FAILED,
    "lost": State.FAILED,
    "cancelled while lost": State.CANCELLED,
}


@pytest.mark.spec("engine-17", "engine-6", "lifecycle-17")
@pytest.mark.parametrize("how", WAYS)
async def test_one_that_ends_badly_ends_or_frees_its_dependents(
    store: Store, time: StoreTime, how: str
) -> None:
    worker = await node(store, lease_seconds=1e6)

    task_id = await end_badly(store, worker, time, how)

    first = await seen(store, task_id)
    assert first.state is WAYS[how]
    assert await state_of(store, "cancels") == GIVEN_UP
    given_up = await seen(store, "cancels")
    assert given_up.ended_at == await store.now()
    assert given_up.attempt == 0
    free = await seen(store, "runs")
    assert free.waits_for == 0
    assert (free.state, free.reason) == FREE or free.state is State.RUNNING
    assert await audited(store, "dependency") == [
        ("system", "dependency", "task:cancels", f"cancelled: {task_id} {first.state}")
    ]


@pytest.mark.spec("engine-17")
async def test_a_chain_is_given_up_to_its_end(store: Store) -> None:
    names = [f"step {at}" for at in range(5)]
    for at, name in enumerate(names):
        on_failure = OnFailure.RUN if at == 4 else OnFailure.CANCEL
        await enqueued(store, id=name, depends_on=tuple(names[at - 1 : at]), on_failure=on_failure)
    await store.cancel("step 0", actor="ann")

    assert [await state_of(store, name) for name in names[1:]] == [*[GIVEN_UP] * 3, FREE]
    assert sorted(await audited(store, "dependency")) == [
        ("system", "dependency", f"task:step {at}", f"cancelled: step {at - 1} cancelled")
        for at in (1, 2, 3)
    ]


@pytest.mark.spec("engine-17")
async def test_a_diamond_is_given_up_once(store: Store) -> None:
    worker = await node(store)
    await store.enqueue(
        [
            new(id="top"),
            new(id="left", depends_on=("top",)),
            new(id="right", depends_on=("top",)),
            new(id="foot", depends_on=("left", "right")),
            new(id="callback", depends_on=("left", "right"), on_failure=OnFailure.RUN),
        ]
    )
    await finish(store, failed(await worker.claim_one(), retry=False))

    for name in ("left", "right", "foot"):
        assert await state_of(store, name) == GIVEN_UP
    subjects = [subject for _, _, subject, _ in await audited(store, "dependency")]
    assert sorted(subjects) == ["task:foot", "task:left", "task:right"]
    kept = await seen(store, "callback")
    assert (kept.state, kept.reason, kept.waits_for) == (*FREE, 0)
    assert await worker.claim_ids(10) == ["callback"]


@pytest.mark.spec("engine-17")
async def test_the_first_that_ends_badly_gives_it_up_though_others_run(store: Store) -> None:
    worker = await node(store)
    tasks = [await running(store, worker) for _ in range(2)]
    dependent = await enqueued(store, depends_on=tuple(task.id for task in tasks))
    await finish(store, failed(tasks[0], retry=False))
    assert await state_of(store, dependent) == GIVEN_UP

    await complete(store, tasks[1])

    assert await state_of(store, dependent) == GIVEN_UP
    assert len(await audited(store, "dependency")) == 1


@pytest.mark.spec("engine-17", "engine-15")
async def test_what_is_given_up_keeps_no_dedup_key(store: Store) -> None:
    first = await enqueued(store)
    await enqueued(store, depends_on=(first,), dedup=Dedup("nightly"))
    await store.cancel(first, actor="ann")

    await enqueued(store, dedup=Dedup("nightly"))


@pytest.mark.spec("engine-17")
async def test_one_that_ended_badly_before_gives_it_up_at_once(store: Store) -> None:
    first = await enqueued(store)
    await store.cancel(first, actor="ann")
    task = new(depends_on=(first,), dedup=Dedup("nightly"))

    assert await store.enqueue([task]) == [Enqueued(task.id)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason) == GIVEN_UP
    assert kept.ended_at == await store.now()
    assert kept.depends_on == (first,)
    await enqueued(store, dedup=Dedup("nightly"))
    free = await enqueued(store, depends_on=(first,), on_failure=OnFailure.RUN)
    assert await state_of(store, free) == (State.QUEUED, Reason.CREATED)
    assert await state_of(store, await enqueued(store, depends_on=(task.id,))) == GIVEN_UP


@pytest.mark.spec("engine-17", "engine-6")
async def test_a_new_life_ignores_what_it_depended_on(store: Store) -> None:
    first = await enqueued(store)
    dependent = await enqueued(store, depends_on=(first,))
    await store.cancel(first, actor="ann")
    await store.retry(dependent, actor="ann")

    assert await state_of(store, dependent) == (State.QUEUED, Reason.OPERATOR)
    await store.retry(first, actor="ann")
    assert await state_of(store, dependent) == (State.QUEUED, Reason.OPERATOR)
    assert (await seen(store, dependent)).waits_for == 0
    assert await (await node(store)).claim_ids(10) == [dependent, first]


@pytest.mark.spec("engine-17", "engine-6")
async def test_a_new_life_of_a_dependent_cancelled_by_hand_ignores_them_too(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker)
    dependent = await enqueued(store, depends_on=(first.id,))
    await store.cancel(dependent, actor="ann")
    await store.retry(dependent, actor="ann")
    [task] = await worker.claim(10)
    assert task.id == dependent

    await complete(store, first)

    assert (await seen(store, dependent)).state is State.RUNNING
    await complete(store, task)


@pytest.mark.spec("engine-17", "engine-6")
async def test_a_new_life_of_a_dependency_leaves_ended_dependents(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    dependent = await enqueued(store, depends_on=(task.id,))
    await finish(store, failed(task, retry=False))
    await store.retry(task.id, actor="ann")
    await complete(store, await worker.claim_one())

    assert await state_of(store, dependent) == GIVEN_UP


@pytest.mark.spec("engine-17", "engine-25")
async def test_a_paused_dependent_is_counted_down_and_resumed_when_all_have_ended(
    store: Store,
) -> None:
    worker = await node(store)
    tasks = [await running(store, worker) for _ in range(2)]
    dependent = await enqueued(store, depends_on=tuple(task.id for task in tasks))
    await store.pause(dependent, actor="ann")
    await complete(store, tasks[0])
    kept = await seen(store, dependent)
    assert (kept.state, kept.waits_for) == (State.PAUSED, 1)
    await store.resume(dependent, actor="ann")
    assert (await seen(store, dependent)).state is State.PENDING
    await store.pause(dependent, actor="ann")

    await complete(store, tasks[1])

    kept = await seen(store, dependent)
    assert (kept.state, kept.waits_for) == (State.PAUSED, 0)
    assert await worker.claim_ids(10) == []
    await store.resume(dependent, actor="ann")
    assert await worker.claim_ids(10) == [dependent]


@pytest.mark.spec("engine-17", "engine-25")
async def test_a_paused_dependent_is_given_up_too(store: Store) -> None:
    first = await enqueued(store)
    dependent = await enqueued(store, depends_on=(first,))
    await store.pause(dependent, actor="ann")
    await store.cancel(first, actor="ann")

    assert await state_of(store, dependent) == GIVEN_UP


@pytest.mark.spec("engine-17", "engine-5")
async def test_a_dependent_that_waits_for_others_is_not_queued_by_resume(store: Store) -> None:
    first = await enqueued(store, delay=60)
    dependent = await enqueued(store, depends_on=(first,))
    await store.pause(dependent, actor="ann")
    await store.resume(dependent, actor="ann")

    assert await state_of(store, dependent) == (State.PENDING, Reason.OPERATOR)


@pytest.mark.spec("engine-17", "lifecycle-4")
async def test_a_dependent_can_be_prioritized_and_cancelled(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    low, high = [await enqueued(store, depends_on=(task.id,)) for _ in range(2)]
    gone = await enqueued(store, depends_on=(task.id,))
    await store.prioritize(high, 1, actor="ann")
    await store.cancel(gone, actor="ann")
    await complete(store, task)

    assert await worker.claim_ids(10) == [high, low]
    assert await state_of(store, gone) == (State.CANCELLED, Reason.OPERATOR)


# --- to look at ---


@pytest.mark.spec("engine-17", "engine-14", "lifecycle-6")
async def test_explain_names_what_is_waited_for(store: Store) -> None:
    worker = await node(store)
    done = await running(store, worker)
    await complete(store, done)
    left = [await enqueued(store) for _ in range(2)]
    dependent = await enqueued(store, depends_on=(left[1], done.id, left[0]))

    [wait] = (await store.explain(dependent)).waits

    assert (wait.condition, wait.code) == (Condition.STATE, "dependencies")
    assert wait.figures["count"] == 2
    named = wait.figures["tasks"]
    assert isinstance(named, list)
    assert sorted(named) == sorted(left)
    assert wait.text == f"it depends on 2 task(s) that have not ended: {', '.join(named)}"


@pytest.mark.spec("engine-17")
async def test_many_are_counted(store: Store) -> None:
    worker = await node(store, slots=600)
    tasks = [new() for _ in range(500)]
    await store.enqueue(tasks)
    names = tuple(task.id for task in tasks)
    dependent = await enqueued(store, depends_on=names)
    kept = await seen(store, dependent)
    assert (kept.depends_on, kept.waits_for) == (names, 500)
    [wait] = (await store.explain(dependent)).waits
    assert wait.figures["count"] == 500
    claimed = await worker.claim(600)
    await complete(store, *claimed[:499])
    assert (await seen(store, dependent)).waits_for == 1
    await complete(store, claimed[499])

    assert await worker.claim_ids(10) == [dependent]


@pytest.mark.spec("engine-17", "lifecycle-15")
async def test_prune_keeps_what_a_waiting_task_depends_on(store: Store) -> None:
    worker = await node(store)
    done, left = await running(store, worker), await running(store, worker)
    dependent = await enqueued(store, depends_on=(done.id, left.id))
    await complete(store, done)
    assert await pruned(store) == 0
    assert (await seen(store, dependent)).depends_on == (done.id, left.id)
    await complete(store, left)
    assert await pruned(store) == 0
    task = await worker.claim_one()
    assert await pruned(store) == 0

    await complete(store, task)

    assert await pruned(store) == 3
    assert not any((await store.counts()).values())


@pytest.mark.spec("engine-17", "lifecycle-15")
async def test_prune_keeps_what_an_ended_task_depended_on_no_longer(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker)
    dependent = await enqueued(store, depends_on=(first.id,))
    await complete(store, first)
    await complete(store, await worker.claim_one())
    kept = Retention(completed=timedelta(0), kinds={}, lanes={})
    assert (await store.prune(kept, actor="ann", dry_run=True)).tasks == 2
    assert await pruned(store) == 2

    with pytest.raises(InvalidOption, match="may have been pruned"):
        await store.enqueue([new(depends_on=(dependent,))])


async def pruned(store: Store) -> int:
    """How many a whole run has removed; a dry run has told so."""
    counts = []
    for dry_run in (True, False):
        step = await store.prune(AT_ONCE, actor="ann", dry_run=dry_run)
        count = step.tasks
        while step.mark is not None:
            step = await store.prune(AT_ONCE, actor="ann", after=step.mark, dry_run=dry_run)
            count += step.tasks
        counts.append(count)
    assert counts[0] == counts[1]
    return counts[1]


# --- at the same time ---


@pytest.mark.spec("engine-17")
async def test_a_fan_in_fires_once_however_its_dependencies_end(
    store: Store, elsewhere: Store
) -> None:
    worker = await node(store, slots=200)
    for _ in range(5):
        tasks = [await running(store, worker) for _ in range(8)]
        dependents = [
            new(depends_on=tuple(task.id for task in tasks), on_failure=OnFailure.RUN)
            for _ in range(3)
        ]
        await store.enqueue(dependents)

        async def end(at: int, task: Claimed) -> None:
            place = (store, elsewhere)[at % 2]
            if at % 3 == 0:
                await finish(place, failed(task, retry=False))
            else:
                await complete(place, task)

        await asyncio.gather(*(end(at, task) for at, task in enumerate(tasks)))

        assert await worker.claim_ids(20) == [task.id for task in dependents]


@pytest.mark.spec("engine-17")
async def test_an_ending_beside_the_enqueue_of_a_dependent_is_not_missed(
    store: Store, elsewhere: Store
) -> None:
    worker = await node(store, slots=200)
    for _ in range(20):
        task = await running(store, worker)
        dependents = [new(depends_on=(task.id,)) for _ in range(4)]

        await asyncio.gather(
            elsewhere.enqueue(dependents[:2]),
            complete(store, task),
            elsewhere.enqueue(dependents[2:3]),
            store.enqueue(dependents[3:]),
        )

        assert sorted(await worker.claim_ids(20)) == sorted(task.id for task in dependents)


@pytest.mark.spec("engine-17", "engine-6")
async def test_an_ended_dependent_cannot_be_resumed(store: Store) -> None:
    first = await enqueued(store)
    dependent = await enqueued(store, depends_on=(first,))
    await store.cancel(first, actor="ann")

    with pytest.raises(IllegalTransition):
        await store.resume(dependent, actor="ann")
