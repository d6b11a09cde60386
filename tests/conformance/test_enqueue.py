from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import InvalidOption, PayloadTooLarge
from taskyard.domain.state import Reason, State
from taskyard.domain.task import DEFAULT_TIMEOUT, Duplicate, Enqueued
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    complete,
    enqueued,
    new,
    node,
    refused_as_duplicate,
    running,
    seen,
    state_of,
)


@pytest.mark.spec("engine-1", "engine-15")
async def test_a_task_is_kept_as_it_was_given(store: Store) -> None:
    now = await store.now()
    task = new(
        "resize",
        payload='{"url":"https://example.org/ü","n":1.5}',
        lane="images",
        priority=2,
        keys=("host:a", "disk"),
        group="tenant-1",
        requires=("gpu", "big"),
        max_charged=2,
        timeout=12.5,
        deadline=now + 60 * SECOND,
    )

    assert await store.enqueue([task]) == [Enqueued(task.id)]

    kept = await seen(store, task.id)
    assert (kept.id, kept.kind, kept.lane, kept.priority) == (task.id, "resize", "images", 2)
    assert kept.payload == task.payload
    assert kept.keys == ("host:a", "disk")
    assert kept.group == "tenant-1"
    assert set(kept.requires) == {"gpu", "big"}
    assert (kept.max_charged, kept.timeout, kept.deadline) == (2, 12.5, now + 60 * SECOND)
    assert (kept.attempt, kept.charged, kept.losses) == (0, 0, 0)
    assert kept.created_at >= now
    assert (kept.started_at, kept.ended_at, kept.node, kept.asked) == (None,) * 4
    assert (kept.result, kept.error, kept.progress) == (None,) * 3
    assert kept.failures == ()


@pytest.mark.spec("engine-1")
async def test_what_is_left_out_has_the_documented_defaults(store: Store) -> None:
    kept = await seen(store, await enqueued(store))

    assert (kept.lane, kept.priority, kept.timeout) == ("default", 5, DEFAULT_TIMEOUT)
    assert kept.max_charged == 4
    assert kept.keys == kept.requires == ()
    assert (kept.dedup, kept.deadline) == (None, None)


@pytest.mark.spec("engine-5")
async def test_a_task_that_is_due_is_queued_in_the_same_step(store: Store) -> None:
    assert await state_of(store, await enqueued(store)) == (State.QUEUED, Reason.CREATED)


@pytest.mark.spec("engine-5")
@pytest.mark.parametrize("delay", [0, 0.0])
async def test_no_delay_is_due(store: Store, delay: float) -> None:
    assert (await seen(store, await enqueued(store, delay=delay))).state is State.QUEUED


@pytest.mark.spec("engine-5")
async def test_a_time_in_the_past_is_due(store: Store) -> None:
    past = await store.now() - SECOND

    assert (await seen(store, await enqueued(store, run_at=past))).state is State.QUEUED


@pytest.mark.spec("engine-5", "engine-21")
async def test_a_delay_counts_by_the_clock_of_the_store(store: Store, time: StoreTime) -> None:
    await time.advance(1000)
    before = await store.now()

    kept = await seen(store, await enqueued(store, delay=60))

    assert (kept.state, kept.reason) == (State.PENDING, Reason.CREATED)
    assert before + 60 * SECOND <= kept.run_at <= await store.now() + 60 * SECOND


@pytest.mark.spec("engine-5")
async def test_a_task_with_a_time_to_come_is_pending(store: Store) -> None:
    later = await store.now() + 60 * SECOND

    kept = await seen(store, await enqueued(store, run_at=later))

    assert (kept.state, kept.run_at) == (State.PENDING, later)


@pytest.mark.spec("engine-15")
async def test_many_are_saved_in_the_order_they_were_given(store: Store) -> None:
    tasks = [new(payload=str(number)) for number in range(50)]

    assert await store.enqueue(tasks) == [Enqueued(task.id) for task in tasks]

    worker = await node(store, slots=50)
    assert [task.payload for task in await worker.claim(50)] == [str(n) for n in range(50)]


@pytest.mark.spec("engine-15")
async def test_nothing_to_enqueue_is_no_mistake(store: Store) -> None:
    assert await store.enqueue([]) == []


@pytest.mark.spec("engine-15")
async def test_one_wrong_task_keeps_the_whole_call_out(store: Store) -> None:
    with pytest.raises(InvalidOption):
        await store.enqueue([new(), new(priority=11), new()])

    assert sum((await store.counts()).values()) == 0


@pytest.mark.spec("engine-15")
async def test_a_payload_that_is_too_large_is_refused_with_its_size(store: Store) -> None:
    with pytest.raises(PayloadTooLarge, match=r"1,000,001 bytes, the limit is 1,000,000"):
        await store.enqueue([new(payload="x" * 1_000_001)])


@pytest.mark.spec("engine-16")
async def test_a_repeated_enqueue_answers_that_the_task_is_there(store: Store) -> None:
    task = new(payload='"first"')
    await store.enqueue([task])

    assert await store.enqueue([task]) == [Duplicate(task.id)]

    assert (await store.counts())[State.QUEUED] == 1


@pytest.mark.spec("engine-16")
async def test_a_repeated_enqueue_changes_nothing(store: Store) -> None:
    first = await enqueued(store, payload='"first"', lane="one")

    assert await refused_as_duplicate(store, id=first, payload='"second"', lane="two") == first

    kept = await seen(store, first)
    assert (kept.payload, kept.lane) == ('"first"', "one")


@pytest.mark.spec("engine-16")
async def test_an_id_stays_taken_when_its_task_has_ended(store: Store) -> None:
    task = await running(store, await node(store))
    await complete(store, task)

    assert await refused_as_duplicate(store, id=task.id) == task.id

    assert (await seen(store, task.id)).state is State.COMPLETED


@pytest.mark.spec("engine-16")
async def test_a_repeated_enqueue_is_seen_from_another_process(
    store: Store, elsewhere: Store
) -> None:
    task = new()
    await store.enqueue([task])

    assert await elsewhere.enqueue([task]) == [Duplicate(task.id)]


@pytest.mark.spec("engine-15", "engine-16")
async def test_of_many_only_the_repeated_ones_are_duplicates(store: Store) -> None:
    old, fresh, other = new(), new(), new()
    await store.enqueue([old])

    answers = await store.enqueue([fresh, old, other])

    assert answers == [Enqueued(fresh.id), Duplicate(old.id), Enqueued(other.id)]
    assert (await store.counts())[State.QUEUED] == 3


@pytest.mark.spec("engine-15", "engine-16")
async def test_the_same_id_twice_in_one_call_is_saved_once(store: Store) -> None:
    task = new()

    assert await store.enqueue([task, task]) == [Enqueued(task.id), Duplicate(task.id)]
    assert (await store.counts())[State.QUEUED] == 1


@pytest.mark.spec("engine-1")
async def test_text_survives_whatever_it_contains(store: Store) -> None:
    payload = '{"quote":"it\'s \\"quoted\\"","null":"\\u0000","snow":"☃","emoji":"🚂","nl":"\\n"}'

    task_id = await enqueued(store, payload=payload, keys=("it's a key",), group="ü'\"")

    kept = await seen(store, task_id)
    assert (kept.payload, kept.keys, kept.group) == (payload, ("it's a key",), "ü'\"")
