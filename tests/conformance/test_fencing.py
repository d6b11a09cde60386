"""A stale attempt changes nothing and is told so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskyard.domain.errors import StaleAttempt
from taskyard.domain.node import Hold
from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.state import State
from taskyard.domain.task import Claimed, Duplicate, Enqueued, Progress
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    LEASE_SECONDS,
    Worker,
    bare,
    complete,
    enqueued,
    failed,
    finish,
    hold,
    new,
    node,
    released,
    running,
    seen,
    snoozed,
    stopped,
    succeeded,
)

VERDICTS: dict[str, Callable[[Claimed], Verdict]] = {
    "succeeded": lambda task: succeeded(task, '"stale"'),
    "retry": failed,
    "failed": lambda task: failed(task, retry=False),
    "released": released,
    "snoozed": lambda task: snoozed(task, 0),
    "stopped": stopped,
}


async def lost(store: Store, time: StoreTime, **options: object) -> tuple[Claimed, Worker]:
    """A task whose node is gone, back in its queue; and a node that could take it."""
    dead = await node(store, "node-a")
    task = await running(store, dead, **options)
    await time.advance(LEASE_SECONDS + 1)
    await store.rescue()
    return bare(task), await node(store, "node-b")


@pytest.mark.spec("engine-19")
@pytest.mark.parametrize("then", VERDICTS)
@pytest.mark.parametrize("outcome", ["succeeded", "failed", "released"])
async def test_of_two_verdicts_in_one_call_the_first_counts(
    store: Store, outcome: str, then: str
) -> None:
    worker = await node(store)
    task, other = [await running(store, worker) for _ in range(2)]

    first, second, beside = await finish(
        store, VERDICTS[outcome](task), VERDICTS[then](task), succeeded(other)
    )

    after = await seen(store, task.id)
    assert (first, second) == (Finished(task.no, after.state), Stale(task.no, task.attempt))
    ends = {"succeeded": State.COMPLETED, "failed": State.FAILED, "released": State.QUEUED}
    assert after.state is ends[outcome]
    assert beside == Finished(other.no, State.COMPLETED)


@pytest.mark.spec("engine-19")
@pytest.mark.parametrize("outcome", VERDICTS)
async def test_a_verdict_on_a_task_that_runs_elsewhere_changes_nothing(
    store: Store, time: StoreTime, outcome: str
) -> None:
    stale, worker = await lost(store, time, keys=("k",))
    current = await worker.claim_one()
    before = await seen(store, stale.id)

    assert await finish(store, VERDICTS[outcome](stale)) == [Stale(stale.no, stale.attempt)]

    assert await seen(store, stale.id) == before
    assert [key.holders for key in await store.keys()] == [(stale.id,)]
    await complete(store, current)


@pytest.mark.spec("engine-19")
@pytest.mark.parametrize("outcome", VERDICTS)
async def test_a_verdict_on_a_task_that_waits_again_changes_nothing(
    store: Store, time: StoreTime, outcome: str
) -> None:
    stale, _ = await lost(store, time, keys=("k",))
    before = await seen(store, stale.id)

    assert await finish(store, VERDICTS[outcome](stale)) == [Stale(stale.no, stale.attempt)]

    assert await seen(store, stale.id) == before


@pytest.mark.spec("engine-19")
@pytest.mark.parametrize("outcome", VERDICTS)
async def test_a_verdict_on_a_task_that_has_ended_changes_nothing(
    store: Store, outcome: str
) -> None:
    task = bare(await running(store, await node(store), keys=("k",)))
    await finish(store, succeeded(task, '"first"'))
    before = await seen(store, task.id)

    assert await finish(store, VERDICTS[outcome](task)) == [Stale(task.no, task.attempt)]

    assert await seen(store, task.id) == before


@pytest.mark.spec("engine-19")
async def test_a_verdict_on_a_task_nobody_knows_is_stale(store: Store) -> None:
    task = await running(store, await node(store))
    nobody = succeeded(task)

    answers = await finish(
        store,
        Verdict(no=nobody.no + 1, id="x", attempt=1, state=nobody.state, reason=nobody.reason),
    )

    assert answers == [Stale(task.no + 1, 1)]


@pytest.mark.spec("engine-19")
async def test_a_stale_verdict_does_not_keep_the_others_of_its_call_back(
    store: Store, time: StoreTime
) -> None:
    stale, worker = await lost(store, time)
    other = await enqueued(store)
    _, good = await worker.claim(2)

    answers = await finish(store, succeeded(stale), succeeded(good))

    assert isinstance(answers[0], Stale)
    assert (await seen(store, other)).state is State.COMPLETED


@pytest.mark.spec("engine-19")
async def test_a_stale_attempt_does_not_free_keys_a_third_task_waits_for(
    store: Store, time: StoreTime
) -> None:
    stale, worker = await lost(store, time, keys=("k",))
    current = await worker.claim_one()
    waiting = await enqueued(store, keys=("k",))
    await finish(store, succeeded(stale))
    assert await worker.claim(10) == []

    await complete(store, current)

    assert await worker.claim_ids(10) == [waiting]


@pytest.mark.spec("engine-19")
async def test_a_stale_attempt_reports_no_progress(store: Store, time: StoreTime) -> None:
    stale, worker = await lost(store, time)
    assert not await store.report(hold(stale), Progress(5))
    current = await worker.claim_one()
    await store.report(hold(current), Progress(1))

    assert not await store.report(hold(stale), Progress(5))

    assert (await seen(store, stale.id)).progress == Progress(1)


@pytest.mark.spec("engine-19")
async def test_an_ended_attempt_reports_no_progress(store: Store) -> None:
    task = bare(await running(store, await node(store)))
    await complete(store, task)

    assert not await store.report(hold(task), Progress(5))

    assert (await seen(store, task.id)).progress is None


@pytest.mark.spec("engine-19", "engine-15")
async def test_an_accepted_attempt_enqueues_children(store: Store) -> None:
    task = await running(store, await node(store))
    child = new()

    assert await store.enqueue([child], by=hold(task)) == [Enqueued(child.id)]
    assert await store.enqueue([child], by=hold(task)) == [Duplicate(child.id)]


@pytest.mark.spec("engine-19", "engine-15")
async def test_a_stale_attempt_enqueues_nothing(store: Store, time: StoreTime) -> None:
    stale, worker = await lost(store, time)
    children = [new(), new()]

    with pytest.raises(StaleAttempt):
        await store.enqueue(children, by=hold(stale))
    await worker.claim_one()
    with pytest.raises(StaleAttempt):
        await store.enqueue(children, by=hold(stale))

    assert [await store.get(child.id) for child in children] == [None, None]


@pytest.mark.spec("engine-19", "engine-15")
async def test_an_ended_attempt_enqueues_nothing(store: Store) -> None:
    task = bare(await running(store, await node(store)))
    await complete(store, task)

    with pytest.raises(StaleAttempt, match="attempt 1"):
        await store.enqueue([new()], by=hold(task))


@pytest.mark.spec("engine-19", "engine-15")
async def test_an_attempt_of_the_future_is_not_accepted(store: Store) -> None:
    task = await running(store, await node(store))

    with pytest.raises(StaleAttempt):
        await store.enqueue([new()], by=Hold(task.no, task.attempt + 1))


@pytest.mark.spec("engine-19", "engine-6")
async def test_a_verdict_of_an_earlier_life_is_stale(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker)
    await finish(store, failed(first, retry=False))
    await store.retry(first.id, actor="ann")
    second = await worker.claim_one()

    assert second.attempt == first.attempt + 1
    assert await finish(store, succeeded(first)) == [Stale(first.no, first.attempt)]
    await complete(store, second)


@pytest.mark.spec("engine-19")
async def test_of_two_processes_that_finish_the_same_attempt_one_is_stale(
    store: Store, elsewhere: Store
) -> None:
    task = await running(store, await node(store))

    await complete(elsewhere, task)

    assert await finish(store, failed(task)) == [Stale(task.no, task.attempt)]
