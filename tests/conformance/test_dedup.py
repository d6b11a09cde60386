from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import IllegalTransition
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Duplicate, Enqueued, Until
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    finish,
    new,
    node,
    refused_as_duplicate,
    released,
    running,
    seen,
    stopped,
)

ONCE = Dedup("nightly")
UNTIL_START = Dedup("nightly", until=Until.START)


@pytest.mark.spec("engine-15")
async def test_a_kept_dedup_key_keeps_another_task_out(store: Store) -> None:
    first = await enqueued(store, dedup=ONCE)

    assert await refused_as_duplicate(store, dedup=ONCE) == first

    assert (await store.counts())[State.QUEUED] == 1
    assert (await seen(store, first)).dedup == "nightly"


@pytest.mark.spec("engine-15")
async def test_another_dedup_key_is_no_clash(store: Store) -> None:
    await enqueued(store, dedup=Dedup("a"))
    await enqueued(store, dedup=Dedup("b"))
    await enqueued(store)


@pytest.mark.spec("engine-15")
async def test_a_clash_inside_one_call_saves_the_first(store: Store) -> None:
    first, second = new(dedup=ONCE), new(dedup=ONCE)

    assert await store.enqueue([first, second]) == [Enqueued(first.id), Duplicate(first.id)]


@pytest.mark.spec("engine-15")
async def test_a_clash_does_not_keep_the_others_of_the_call_out(store: Store) -> None:
    first = await enqueued(store, dedup=ONCE)
    clash, other = new(dedup=ONCE), new()

    assert await store.enqueue([clash, other]) == [Duplicate(first), Enqueued(other.id)]

    assert await store.get(clash.id) is None


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_kept_while_the_task_runs(store: Store) -> None:
    task = await running(store, await node(store), dedup=ONCE)

    assert await refused_as_duplicate(store, dedup=ONCE) == task.id


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_kept_through_a_retry(store: Store) -> None:
    task = await running(store, await node(store), dedup=ONCE)
    await finish(store, failed(task, delay=60))

    assert await refused_as_duplicate(store, dedup=ONCE) == task.id


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_kept_through_a_release(store: Store) -> None:
    task = await running(store, await node(store), dedup=ONCE)
    await finish(store, released(task))

    assert await refused_as_duplicate(store, dedup=ONCE) == task.id


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_free_when_the_task_is_completed(store: Store) -> None:
    await complete(store, await running(store, await node(store), dedup=ONCE))

    await enqueued(store, dedup=ONCE)


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_free_when_the_task_has_failed(store: Store) -> None:
    task = await running(store, await node(store), dedup=ONCE)
    await finish(store, failed(task, retry=False))

    await enqueued(store, dedup=ONCE)


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_free_when_the_body_was_cancelled(store: Store) -> None:
    task = await running(store, await node(store), dedup=ONCE)
    await finish(store, stopped(task))

    await enqueued(store, dedup=ONCE)


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_free_when_the_waiting_task_is_cancelled(store: Store) -> None:
    await store.cancel(await enqueued(store, dedup=ONCE), actor="ann")

    await enqueued(store, dedup=ONCE)


@pytest.mark.spec("engine-15")
async def test_until_end_the_key_is_free_when_the_task_has_expired(
    store: Store, time: StoreTime
) -> None:
    await enqueued(store, dedup=ONCE, deadline=await store.now() + SECOND)
    await time.advance(2)
    await store.expire()

    await enqueued(store, dedup=ONCE)


@pytest.mark.spec("engine-15")
async def test_until_start_the_key_is_kept_while_the_task_waits(store: Store) -> None:
    first = await enqueued(store, dedup=UNTIL_START)

    assert await refused_as_duplicate(store, dedup=UNTIL_START) == first


@pytest.mark.spec("engine-15")
async def test_until_start_the_key_is_free_when_the_task_runs(store: Store) -> None:
    await running(store, await node(store), dedup=UNTIL_START)

    await enqueued(store, dedup=UNTIL_START)


@pytest.mark.spec("engine-15")
async def test_until_start_the_first_coming_back_does_not_take_the_key_again(store: Store) -> None:
    task = await running(store, await node(store), dedup=UNTIL_START)
    second = await enqueued(store, dedup=UNTIL_START)
    await finish(store, failed(task))

    assert await refused_as_duplicate(store, dedup=UNTIL_START) == second
    assert (await seen(store, task.id)).state is State.QUEUED


@pytest.mark.spec("engine-15", "engine-6")
async def test_a_new_life_keeps_the_dedup_key_again(store: Store) -> None:
    first = await enqueued(store, dedup=ONCE)
    await store.cancel(first, actor="ann")
    await store.retry(first, actor="ann")

    assert await refused_as_duplicate(store, dedup=ONCE) == first


@pytest.mark.spec("engine-15", "engine-6")
async def test_a_new_life_is_refused_while_another_task_keeps_the_dedup_key(store: Store) -> None:
    first = await enqueued(store, dedup=ONCE)
    await store.cancel(first, actor="ann")
    second = await enqueued(store, dedup=ONCE)

    with pytest.raises(IllegalTransition, match=second):
        await store.retry(first, actor="ann")

    assert (await seen(store, first)).state is State.CANCELLED


@pytest.mark.spec("engine-15")
async def test_a_dedup_key_is_kept_across_processes(store: Store, elsewhere: Store) -> None:
    first = await enqueued(store, dedup=ONCE)

    assert await refused_as_duplicate(elsewhere, dedup=ONCE) == first


@pytest.mark.spec("engine-15")
async def test_a_task_left_out_for_its_id_leaves_its_dedup_key_to_the_next_one(
    store: Store,
) -> None:
    first, again = new(id="a", dedup=Dedup("one")), new(id="a", dedup=Dedup("two"))

    answers = await store.enqueue([first, again, new(id="b", dedup=Dedup("two"))])

    assert answers == [Enqueued("a"), Duplicate("a"), Enqueued("b")]
