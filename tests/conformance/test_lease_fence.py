"""An attempt is accepted only from the lease that claimed it.

Attempts are counted by the store, and a server that lost its last writes counts some of them
again. Leases are never given out twice, so an attempt is believed only together with its lease.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from taskyard.domain.errors import StaleAttempt
from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.state import State
from taskyard.domain.task import Claimed, Progress
from taskyard.store.port import ClaimRequest, Store
from tests.conformance.verbs import (
    Worker,
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


async def twice_given(store: Store, **options: object) -> tuple[Claimed, Claimed, Worker]:
    """An attempt, the same attempt as another lease would know it, and the first one's node."""
    worker, other = await node(store, "node-a"), await node(store, "node-b")
    current = await running(store, worker, **options)
    return current, msgspec.structs.replace(current, lease=other.lease), worker


@pytest.mark.spec("engine-19")
async def test_a_claim_and_what_is_held_name_the_lease(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)

    assert task.lease == worker.lease
    assert (await worker.ask_again()).tasks == [task]
    assert await worker.holds() == {hold(task)}


@pytest.mark.spec("engine-19")
@pytest.mark.parametrize("outcome", VERDICTS)
async def test_a_verdict_of_another_lease_changes_nothing(store: Store, outcome: str) -> None:
    current, forgotten, _ = await twice_given(store, keys=("k",))
    before = await seen(store, current.id)

    stale = [Stale(current.no, current.attempt)]
    assert await finish(store, VERDICTS[outcome](forgotten)) == stale

    assert await seen(store, current.id) == before
    assert [key.holders for key in await store.keys()] == [(current.id,)]
    await complete(store, current)


@pytest.mark.spec("engine-19")
async def test_of_two_verdicts_on_one_attempt_that_of_its_lease_counts(store: Store) -> None:
    current, forgotten, worker = await twice_given(store, keys=("k",))
    waiting = await enqueued(store, keys=("k",))
    request = ClaimRequest(lease=worker.lease, number=worker.number + 1, room=1)

    turn = await store.turn([failed(forgotten), succeeded(current)], request)

    assert turn.finished == [
        Stale(current.no, current.attempt),
        Finished(current.no, State.COMPLETED),
    ]
    assert [task.id for task in turn.claim.tasks] == [waiting]


@pytest.mark.spec("engine-19")
async def test_another_lease_reports_no_progress(store: Store) -> None:
    current, forgotten, _ = await twice_given(store)

    assert not await store.report(hold(forgotten), Progress(5))

    assert (await seen(store, current.id)).progress is None
    assert await store.report(hold(current), Progress(1))


@pytest.mark.spec("engine-19", "engine-15")
async def test_another_lease_enqueues_nothing(store: Store) -> None:
    current, forgotten, _ = await twice_given(store)
    child = new()

    with pytest.raises(StaleAttempt):
        await store.enqueue([child], by=hold(forgotten))

    assert await store.get(child.id) is None
    await store.enqueue([child], by=hold(current))
    assert await store.get(child.id) is not None


@pytest.mark.spec("engine-19")
async def test_another_lease_tells_no_start(store: Store) -> None:
    worker, other = await node(store, "node-a"), await node(store, "node-b")
    task_id = await enqueued(store)
    [ahead] = (await worker.ask(0, ahead=1)).tasks
    forgotten = msgspec.structs.replace(ahead, lease=other.lease)

    await store.mark_started([hold(forgotten)])
    assert (await seen(store, task_id)).started_at is None

    await store.mark_started([hold(ahead)])
    assert (await seen(store, task_id)).started_at is not None
