"""What operators may do to a task, and what they may not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Task
from taskyard.store.port import Cancellation, Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    finish,
    node,
    released,
    running,
    seen,
    state_of,
    stopped,
    succeeded,
)


async def pending(store: Store) -> str:
    return await enqueued(store, delay=60)


async def queued(store: Store) -> str:
    return await enqueued(store)


async def in_progress(store: Store) -> str:
    return (await running(store, await node(store))).id


async def completed(store: Store) -> str:
    task = await running(store, await node(store))
    await complete(store, task)
    return task.id


async def failed_for_good(store: Store) -> str:
    task = await running(store, await node(store))
    await finish(store, failed(task, retry=False))
    return task.id


async def cancelled(store: Store) -> str:
    task_id = await enqueued(store)
    await store.cancel(task_id, actor="ann")
    return task_id


Make = Callable[[Store], Awaitable[str]]


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("make", [pending, queued])
async def test_a_waiting_task_is_cancelled_at_once(store: Store, make: Make) -> None:
    task_id = await make(store)

    assert await store.cancel(task_id, actor="ann") is Cancellation.DONE

    kept = await seen(store, task_id)
    assert (kept.state, kept.reason) == (State.CANCELLED, Reason.OPERATOR)
    assert kept.ended_at is not None


@pytest.mark.spec("engine-6")
async def test_a_running_task_is_asked_to_stop(store: Store) -> None:
    task_id = await in_progress(store)

    assert await store.cancel(task_id, actor="ann") is Cancellation.ASKED

    kept = await seen(store, task_id)
    assert (kept.state, kept.asked, kept.ended_at) == (State.RUNNING, "cancel", None)


@pytest.mark.spec("engine-6")
async def test_asking_twice_is_no_mistake(store: Store) -> None:
    task_id = await in_progress(store)
    await store.cancel(task_id, actor="ann")

    assert await store.cancel(task_id, actor="bob") is Cancellation.ASKED


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("make", [completed, failed_for_good, cancelled])
async def test_a_task_that_has_ended_cannot_be_cancelled(store: Store, make: Make) -> None:
    task_id = await make(store)
    before = await seen(store, task_id), len(await store.audit())

    with pytest.raises(IllegalTransition, match="cannot become cancelled"):
        await store.cancel(task_id, actor="ann")

    assert (await seen(store, task_id), len(await store.audit())) == before


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("make", [pending, queued, in_progress, completed])
async def test_only_a_failed_or_cancelled_task_can_be_retried(store: Store, make: Make) -> None:
    task_id = await make(store)
    before = await seen(store, task_id), len(await store.audit())

    with pytest.raises(IllegalTransition, match="only a cancelled or failed one can"):
        await store.retry(task_id, actor="ann")

    assert (await seen(store, task_id), len(await store.audit())) == before


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("make", [failed_for_good, cancelled])
async def test_a_retry_by_an_operator_is_a_new_life(store: Store, make: Make) -> None:
    task_id = await make(store)
    before = await seen(store, task_id)

    await store.retry(task_id, actor="ann")

    kept = await seen(store, task_id)
    assert (kept.state, kept.reason) == (State.QUEUED, Reason.OPERATOR)
    assert (kept.attempt, kept.charged, kept.losses) == (before.attempt, 0, 0)
    assert kept.seq > before.seq
    assert (kept.ended_at, kept.started_at, kept.node, kept.error) == (None,) * 4
    assert (kept.created_at, kept.payload) == (before.created_at, before.payload)


@pytest.mark.spec("engine-6", "engine-2")
async def test_a_new_life_has_a_full_budget_and_goes_on_counting_attempts(store: Store) -> None:
    worker = await node(store)
    task_id = await enqueued(store, max_charged=2)
    for _ in range(2):
        await finish(store, failed(await worker.claim_one()))
    assert await state_of(store, task_id) == (State.FAILED, Reason.ERROR)

    await store.retry(task_id, actor="ann")
    attempts = []
    while tasks := await worker.claim(1):
        attempts.append((tasks[0].attempt, tasks[0].charged))
        await finish(store, failed(tasks[0]))

    assert attempts == [(3, 0), (4, 1)]
    kept = await seen(store, task_id)
    assert (kept.state, kept.charged) == (State.FAILED, 2)
    assert [f.attempt for f in kept.failures] == [1, 2, 3, 4]


@pytest.mark.spec("engine-6")
async def test_a_new_life_starts_without_the_old_result(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await finish(store, failed(task, retry=False))
    await store.retry(task.id, actor="ann")
    again = await worker.claim_one()
    await finish(store, succeeded(again))

    kept = await seen(store, task.id)

    assert (kept.state, kept.result, kept.error) == (State.COMPLETED, None, None)


@pytest.mark.spec("engine-6")
async def test_an_expired_task_can_have_a_new_life(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task_id = await enqueued(store, deadline=await store.now() + SECOND)
    await time.advance(2)
    await store.expire()
    await store.retry(task_id, actor="ann")

    assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-2")
async def test_the_attempt_grows_at_every_claim_and_never_goes_back(store: Store) -> None:
    worker = await node(store)
    task_id = await enqueued(store, max_charged=9)
    attempts = []

    def look(task: Task) -> None:
        attempts.append(task.attempt)

    for ending in (released, failed, stopped):
        await finish(store, ending(await worker.claim_one()))
        look(await seen(store, task_id))
    await store.retry(task_id, actor="ann")
    look(await seen(store, task_id))
    dying = await node(store, "node-b")
    await dying.claim_one()
    await store.rescue([dying.lease])
    look(await seen(store, task_id))
    leaving = await node(store, "node-c")
    await leaving.claim_one()
    await store.retire(leaving.lease)
    look(await seen(store, task_id))

    assert attempts == [1, 2, 3, 3, 4, 5]


@pytest.mark.spec("engine-6")
async def test_a_task_nobody_knows_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="nobody"):
        await store.cancel("nobody", actor="ann")
    with pytest.raises(NotFound, match="nobody"):
        await store.retry("nobody", actor="ann")
    with pytest.raises(NotFound, match="nobody"):
        await store.explain("nobody")
    assert await store.get("nobody") is None
