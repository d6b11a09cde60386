"""A task and one that depends on it are both too late: both expire, then the others are told."""

from __future__ import annotations

import pytest

from taskyard.domain.clock import micros
from taskyard.domain.state import Reason, State
from taskyard.domain.task import OnFailure
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import audited, complete, enqueued, limit, node, running, state_of

EXPIRED = (State.FAILED, Reason.EXPIRED)
CANCELLED = (State.CANCELLED, Reason.DEPENDENCY)
QUEUED = (State.QUEUED, Reason.DEPENDENCY)


@pytest.mark.spec("engine-17", "engine-6")
@pytest.mark.parametrize("how", ["ready", "parked", "pending"])
async def test_whatever_is_late_expires_and_then_the_others_are_told(
    store: Store, time: StoreTime, how: str
) -> None:
    deadline = await store.now() + micros(5)
    if how == "parked":
        await running(store, await node(store), keys=("k",))
    first = await enqueued(
        store, deadline=deadline, keys=("k",), delay=9 if how == "pending" else None
    )
    late = await enqueued(store, deadline=deadline, depends_on=(first,))
    later = await enqueued(store, deadline=deadline, depends_on=(late, first))
    cancelled = await enqueued(store, depends_on=(late,))
    after = await enqueued(store, depends_on=(cancelled,))
    goes_on = await enqueued(store, depends_on=(first, later), on_failure=OnFailure.RUN)
    await time.advance(6)

    assert await store.expire() == 3

    assert [await state_of(store, one) for one in (first, late, later)] == [EXPIRED] * 3
    assert [await state_of(store, one) for one in (cancelled, after)] == [CANCELLED] * 2
    assert await state_of(store, goes_on) == QUEUED
    lines = await audited(store, "expired", "dependency")
    assert sorted(lines[:3]) == sorted(
        ("system", "expired", f"task:{one}", "deadline passed") for one in (first, late, later)
    )
    assert lines[3:] == [
        ("system", "dependency", f"task:{cancelled}", f"cancelled: {late} failed"),
        ("system", "dependency", f"task:{after}", f"cancelled: {cancelled} cancelled"),
    ]


@pytest.mark.spec("engine-17", "engine-6")
async def test_a_claim_expires_what_it_finds_and_cancels_who_depends_on_it(
    store: Store, time: StoreTime
) -> None:
    """A dependent is not ready, so no claim finds it: late or not, it is cancelled."""
    deadline = await store.now() + micros(5)
    await limit(store, "k", 1)
    worker = await node(store)
    first = await enqueued(store, deadline=deadline, keys=("k",))
    late = await enqueued(store, deadline=deadline, depends_on=(first,))
    waiter = await enqueued(store, keys=("k",))
    await time.advance(6)

    [task] = await worker.claim(5)

    assert task.id == waiter
    assert [await state_of(store, one) for one in (first, late)] == [EXPIRED, CANCELLED]
    assert await store.expire() == 0
    await complete(store, task)
