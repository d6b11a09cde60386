"""A task can be paused while it waits and while it runs, and goes on from its checkpoint."""

from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import IllegalTransition
from taskyard.domain.explain import Condition
from taskyard.domain.node import Ask
from taskyard.domain.outcome import Died, Finished, Outcome, Snoozed, Stale
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed, Dedup, Until
from taskyard.store.port import Cancellation, Pausing, Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    BROKEN,
    Worker,
    audited,
    capacity,
    change,
    complete,
    enqueued,
    failed,
    finish,
    lane_of,
    limit,
    node,
    paused,
    refused_as_duplicate,
    released,
    running,
    seen,
    state_of,
    stopped,
    succeeded,
    verdict,
)

PAUSED = (State.PAUSED, Reason.OPERATOR)


# --- one that waits ---


@pytest.mark.spec("engine-25", "engine-6", "lifecycle-7")
async def test_a_paused_task_does_not_start(store: Store) -> None:
    worker = await node(store)
    task_id, other = await enqueued(store, priority=1), await enqueued(store)

    assert await store.pause(task_id, actor="ann") is Pausing.DONE

    assert await state_of(store, task_id) == PAUSED
    assert (await store.counts())[State.PAUSED] == 1
    assert await worker.claim_ids(10) == [other]
    lane = await lane_of(store, "default")
    assert (lane.queued, lane.pending) == (0, 0)


@pytest.mark.spec("engine-25", "engine-6", "lifecycle-7")
async def test_a_resumed_task_stands_where_it_stood(store: Store) -> None:
    worker = await node(store)
    first, second = await enqueued(store), await enqueued(store)
    seq = (await seen(store, first)).seq
    await store.pause(first, actor="ann")
    third = await enqueued(store)

    await store.resume(first, actor="ann")

    assert await state_of(store, first) == (State.QUEUED, Reason.OPERATOR)
    assert (await seen(store, first)).seq == seq
    assert await worker.claim_ids(10) == [first, second, third]


@pytest.mark.spec("engine-25", "engine-5")
async def test_a_task_for_later_is_resumed_to_wait_for_its_time(
    store: Store, time: StoreTime
) -> None:
    early, late = await enqueued(store, delay=5), await enqueued(store, delay=50)
    for task_id in (early, late):
        await store.pause(task_id, actor="ann")
    await time.advance(10)
    promoted = await store.promote()
    assert (promoted.count, promoted.next_due) == (0, None)
    for task_id in (early, late):
        await store.resume(task_id, actor="ann")

    assert await state_of(store, early) == (State.QUEUED, Reason.OPERATOR)
    assert await state_of(store, late) == (State.PENDING, Reason.OPERATOR)
    assert (await store.promote()).next_due == (await seen(store, late)).run_at
    await time.advance(40)
    assert (await store.promote()).count == 1


@pytest.mark.spec("engine-25", "lifecycle-7")
async def test_the_system_pauses_in_its_own_name(store: Store) -> None:
    paused_one, cancelled = await enqueued(store), await enqueued(store)
    await store.pause(paused_one, actor="system")
    await store.cancel(cancelled, actor="system")

    assert await state_of(store, paused_one) == (State.PAUSED, Reason.SYSTEM)
    assert await state_of(store, cancelled) == (State.CANCELLED, Reason.SYSTEM)
    await store.resume(paused_one, actor="system")
    assert await state_of(store, paused_one) == (State.QUEUED, Reason.SYSTEM)


@pytest.mark.spec("engine-25", "engine-15")
async def test_a_paused_task_keeps_its_dedup_key(store: Store) -> None:
    first = await enqueued(store, dedup=Dedup("nightly"))
    await store.pause(first, actor="ann")
    assert await refused_as_duplicate(store, dedup=Dedup("nightly")) == first

    await store.cancel(first, actor="ann")

    assert await state_of(store, first) == (State.CANCELLED, Reason.OPERATOR)
    await enqueued(store, dedup=Dedup("nightly"))


@pytest.mark.spec("engine-25", "engine-10")
async def test_a_woken_task_that_is_paused_leaves_the_key_to_the_next(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    first, second = [await enqueued(store, keys=("k",)) for _ in range(2)]
    await complete(store, held)
    await store.pause(first, actor="ann")

    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-25", "engine-10")
async def test_a_parked_task_can_be_paused_and_resumed(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    first, second = [await enqueued(store, keys=("k",)) for _ in range(2)]
    await store.pause(first, actor="ann")
    assert [key.waiting for key in await store.keys()] == [1]
    assert (await seen(store, first)).parked_on is None
    await store.resume(first, actor="ann")
    await complete(store, held)
    task = await worker.claim_one()
    assert task.id == first
    await complete(store, task)

    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-25", "engine-10")
async def test_a_task_resumed_with_its_key_taken_waits_for_it(store: Store) -> None:
    worker = await node(store)
    task_id = await enqueued(store, keys=("k",))
    await store.pause(task_id, actor="ann")
    held = await running(store, worker, keys=("k",))
    await store.resume(task_id, actor="ann")
    assert await worker.claim_ids(10) == []

    await complete(store, held)

    assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-25", "engine-6")
async def test_a_paused_task_does_not_expire(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task_id = await enqueued(store, deadline=await store.now() + SECOND)
    await store.pause(task_id, actor="ann")
    await time.advance(2)
    assert await store.expire() == 0
    assert await state_of(store, task_id) == PAUSED

    await store.resume(task_id, actor="ann")

    assert await worker.claim_ids(10) == []
    await store.expire()
    assert await state_of(store, task_id) == (State.FAILED, Reason.EXPIRED)


@pytest.mark.spec("engine-25", "engine-14", "lifecycle-6")
async def test_a_paused_task_explains_that_it_is(store: Store) -> None:
    task_id = await enqueued(store)
    await store.pause(task_id, actor="ann")

    [wait] = (await store.explain(task_id)).waits

    assert (wait.condition, wait.code) == (Condition.STATE, "paused")


@pytest.mark.spec("lifecycle-17", "engine-25")
async def test_a_pause_is_written_down(store: Store) -> None:
    task_id = await enqueued(store)
    await store.pause(task_id, actor="ann")
    await store.resume(task_id, actor="bob")
    task = await (await node(store)).claim_one()
    await store.pause(task.id, actor="cid")
    await store.resume(task.id, actor="dan")

    assert await audited(store, "pause", "resume") == [
        ("ann", "pause", f"task:{task_id}", "paused"),
        ("bob", "resume", f"task:{task_id}", "paused"),
        ("cid", "pause", f"task:{task_id}", "asked"),
        ("dan", "resume", f"task:{task_id}", "asked"),
    ]


# --- one that runs ---


def asks(worker: Worker) -> set[tuple[int, str]]:
    return {(ask.no, ask.what) for ask in worker.beat().asks}


@pytest.mark.spec("engine-25", "engine-20")
async def test_a_running_task_is_asked_to_pause(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)

    assert await store.pause(task.id, actor="ann") is Pausing.ASKED

    kept = await seen(store, task.id)
    assert (kept.state, kept.asked) == (State.RUNNING, "pause")
    news = await store.news(worker.lease)
    assert list(news.asks) == [Ask(task.no, task.attempt, "pause")]
    assert asks(worker) == {(task.no, "pause")}


@pytest.mark.spec("engine-25", "engine-2")
async def test_a_body_that_heeds_it_leaves_a_paused_task(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "narrow", 1)
    task = await running(store, worker, lane="narrow", keys=("k",), dedup=Dedup("nightly"))
    await store.pause(task.id, actor="ann")

    assert await finish(store, paused(task)) == [Finished(task.no, State.PAUSED)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason, kept.asked) == (*PAUSED, None)
    assert (kept.charged, kept.losses, kept.failures, kept.started_at) == (0, 0, (), None)
    assert asks(worker) == set()
    assert await refused_as_duplicate(store, dedup=Dedup("nightly")) == task.id
    other = await running(store, worker, lane="narrow", keys=("k",))  # there is room
    await store.resume(task.id, actor="ann")
    assert await worker.claim_ids(10) == []
    await complete(store, other)
    again = await worker.claim_one()
    assert (again.id, again.attempt, again.charged) == (task.id, 2, 0)


@pytest.mark.spec("engine-25", "engine-7")
async def test_a_body_that_pauses_keeps_the_place_of_its_task(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    seq = (await seen(store, task.id)).seq
    later = await enqueued(store)
    await finish(store, paused(task))
    await store.resume(task.id, actor="ann")

    assert (await seen(store, task.id)).seq == seq
    assert await worker.claim_ids(10) == [task.id, later]


PAUSES: dict[str, Outcome | None] = {
    "released": None,
    "failed": None,
    "snoozed": Snoozed(5.0),
    "died": Died(BROKEN, losses=0),
}


@pytest.mark.spec("engine-25", "engine-6")
@pytest.mark.parametrize("how", PAUSES)
async def test_a_body_that_ends_otherwise_is_paused_all_the_same(store: Store, how: str) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.pause(task.id, actor="ann")
    outcome = PAUSES[how]
    if outcome is not None:
        said = verdict(task, outcome)
    else:
        said = released(task) if how == "released" else failed(task)

    assert await finish(store, said) == [Finished(task.no, State.PAUSED)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason, kept.asked) == (*PAUSED, None)
    assert kept.charged == (how in ("failed", "died"))
    assert len(kept.failures) == (how in ("failed", "died"))
    assert await worker.claim_ids(10) == []
    await store.resume(task.id, actor="ann")
    waits = how == "snoozed"
    assert (await seen(store, task.id)).state is (State.PENDING if waits else State.QUEUED)


@pytest.mark.spec("engine-25")
async def test_a_delay_goes_on_while_the_task_is_paused(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.pause(task.id, actor="ann")
    await finish(store, failed(task, delay=10))
    await store.resume(task.id, actor="ann")
    kept = await seen(store, task.id)
    assert (kept.state, kept.run_at) == (State.PENDING, await store.now() + 10 * SECOND)
    await store.pause(task.id, actor="ann")
    await time.advance(10)

    await store.resume(task.id, actor="ann")

    assert await worker.claim_ids(10) == [task.id]


@pytest.mark.spec("engine-25", "engine-6")
async def test_a_body_that_ends_for_good_has_ended(store: Store) -> None:
    worker = await node(store)
    for end, state in ((succeeded, State.COMPLETED), (stopped, State.CANCELLED)):
        task = await running(store, worker)
        await store.pause(task.id, actor="ann")

        assert await finish(store, end(task)) == [Finished(task.no, state)]

        assert (await seen(store, task.id)).asked is None
    task = await running(store, worker)
    await store.pause(task.id, actor="ann")
    assert await finish(store, failed(task, retry=False)) == [Finished(task.no, State.FAILED)]


@pytest.mark.spec("engine-25")
async def test_resume_takes_the_wish_back(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.pause(task.id, actor="ann")

    await store.resume(task.id, actor="ann")

    kept = await seen(store, task.id)
    assert (kept.state, kept.asked) == (State.RUNNING, None)
    assert asks(worker) == set()
    assert await finish(store, released(task)) == [Finished(task.no, State.QUEUED)]
    assert await worker.claim_ids(10) == [task.id]


@pytest.mark.spec("engine-25")
async def test_cancel_overrides_pause_and_not_the_other_way(store: Store) -> None:
    worker = await node(store)
    first, second = await running(store, worker), await running(store, worker)
    await store.pause(first.id, actor="ann")
    assert await store.cancel(first.id, actor="ann") is Cancellation.ASKED
    await store.cancel(second.id, actor="ann")
    assert await store.pause(second.id, actor="ann") is Pausing.ASKED

    assert asks(worker) == {(first.no, "cancel"), (second.no, "cancel")}
    await finish(store, released(first), paused(second))
    for task in (first, second):
        assert await state_of(store, task.id) == (State.CANCELLED, Reason.OPERATOR)


@pytest.mark.spec("engine-25", "engine-6")
async def test_resume_does_not_take_a_cancel_back(store: Store) -> None:
    task = await running(store, await node(store))
    await store.cancel(task.id, actor="ann")

    with pytest.raises(IllegalTransition):
        await store.resume(task.id, actor="ann")

    assert (await seen(store, task.id)).asked == "cancel"


@pytest.mark.spec("engine-25", "engine-20")
@pytest.mark.parametrize("how", ["rescue", "retire"])
async def test_a_node_that_goes_leaves_it_paused(store: Store, how: str) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.pause(task.id, actor="ann")
    if how == "rescue":
        await store.rescue([worker.lease])
    else:
        await store.retire(worker.lease)

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason, kept.asked) == (*PAUSED, None)
    assert kept.losses == (how == "rescue")
    await store.resume(task.id, actor="ann")
    assert await (await node(store)).claim_ids(10) == [task.id]


@pytest.mark.spec("engine-25", "engine-19")
async def test_a_stale_attempt_pauses_nothing(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await finish(store, released(task))
    again = await worker.claim_one()

    assert await finish(store, paused(task)) == [Stale(task.no, task.attempt)]

    assert (await seen(store, task.id)).state is State.RUNNING
    await complete(store, again)


@pytest.mark.spec("engine-25", "engine-10")
async def test_the_key_of_one_that_paused_goes_to_who_waits(store: Store) -> None:
    worker = await node(store)
    await limit(store, "k", 1)
    task = await running(store, worker, keys=("k",))
    waiting = await enqueued(store, keys=("k",))
    await finish(store, paused(task))

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-25", "engine-15")
async def test_until_start_a_resumed_task_does_not_take_the_key_again(store: Store) -> None:
    once = Dedup("nightly", Until.START)
    task = await running(store, await node(store), dedup=once)
    await finish(store, paused(task))

    second = await enqueued(store, dedup=once)
    await store.resume(task.id, actor="ann")

    assert await refused_as_duplicate(store, dedup=once) == second


@pytest.mark.spec("engine-25", "engine-9")
async def test_with_ageing_a_resumed_task_begins_to_wait_anew(
    store: Store, time: StoreTime
) -> None:
    await change(store, "default", ageing=60)
    worker = await node(store, lease_seconds=1e6)
    task_id = await enqueued(store, priority=5)
    await store.pause(task_id, actor="ann")
    await time.advance(1000)
    urgent = await enqueued(store, priority=1)
    await store.resume(task_id, actor="ann")

    assert await worker.claim_ids(10) == [urgent, task_id]


# --- checkpoints ---


@pytest.mark.spec("engine-25", "engine-1")
async def test_the_next_attempt_goes_on_from_the_checkpoint(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    assert task.checkpoint is None
    assert (await seen(store, task.id)).checkpoint is None

    assert await store.checkpoint(task.hold, '{"page":1}') is True
    assert await store.checkpoint(task.hold, '{"page":2,"snow":"☃"}') is True

    assert (await seen(store, task.id)).checkpoint == '{"page":2,"snow":"☃"}'
    await finish(store, paused(task))
    await store.resume(task.id, actor="ann")
    again = await worker.claim_one()
    assert (again.id, again.checkpoint) == (task.id, '{"page":2,"snow":"☃"}')


async def come_back(store: Store, worker: Worker, task: Claimed, how: str) -> Worker:
    match how:
        case "failed":
            await finish(store, failed(task))
        case "released":
            await finish(store, released(task))
        case "retried by hand":
            await finish(store, failed(task, retry=False))
            await store.retry(task.id, actor="ann")
        case _:
            await store.rescue([worker.lease])
            return await node(store, "node-b")
    return worker


@pytest.mark.spec("engine-25", "engine-1")
@pytest.mark.parametrize("how", ["failed", "released", "rescued", "retried by hand"])
async def test_a_checkpoint_stays_with_its_task(store: Store, how: str) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.checkpoint(task.hold, "[1]")

    again = await (await come_back(store, worker, task, how)).claim_one()

    assert (again.id, again.checkpoint) == (task.id, "[1]")
    await complete(store, again)
    assert (await seen(store, task.id)).checkpoint == "[1]"


@pytest.mark.spec("engine-25", "engine-13")
async def test_a_claim_that_is_found_again_brings_the_checkpoint(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.checkpoint(task.hold, "[1]")
    await finish(store, released(task))
    [first] = (await worker.ask(1)).tasks

    assert (await worker.ask_again(1)).tasks == [first]
    assert first.checkpoint == "[1]"


@pytest.mark.spec("engine-25", "engine-19")
async def test_a_stale_attempt_leaves_no_checkpoint(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.checkpoint(task.hold, "[1]")
    await finish(store, released(task))
    assert await store.checkpoint(task.hold, "[2]") is False
    again = await worker.claim_one()

    assert await store.checkpoint(task.hold, "[3]") is False

    assert (await seen(store, task.id)).checkpoint == "[1]"
    await complete(store, again)
    assert await store.checkpoint(again.hold, "[4]") is False


# --- what a claim tells ---


@pytest.mark.spec("engine-22", "lifecycle-16")
async def test_a_claim_tells_losses_and_how_long_it_waited(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    fresh = await running(store, worker)
    assert (fresh.losses, fresh.waited) == (0, 0.0)
    await complete(store, fresh)
    await enqueued(store)
    await time.advance(2.5)
    first = await worker.claim_one()
    assert (first.losses, first.waited) == (0, 2.5)
    await store.rescue([worker.lease], ended=False)
    other = await node(store, "node-b", lease_seconds=1e6)
    again = await other.claim_one()
    assert (again.losses, again.waited) == (1, 2.5)
    await finish(store, failed(again, delay=10))
    await time.advance(12)
    await store.promote()

    assert (await other.claim_one()).waited == 2.0


@pytest.mark.spec("lifecycle-16")
async def test_a_task_of_the_past_has_waited_since_then(store: Store) -> None:
    await enqueued(store, run_at=await store.now() - 3 * SECOND)

    assert (await (await node(store)).claim_one()).waited == 3.0
