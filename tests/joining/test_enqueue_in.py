"""Tasks come and go with the transaction of the caller, whatever its driver."""

from __future__ import annotations

import pytest

from taskyard import State, Yard
from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import Dedup, Duplicate, Enqueued, NewTask, Until
from tests.conformance.test_hints import Listener, hears_while
from tests.conformance.verbs import new
from tests.engine.waits import ended, working
from tests.joining.callers import Caller

FULL = NewTask(
    kind="work",
    payload='{"text": "100 % ☃ \\u0000"}',
    lane="images",
    priority=2,
    keys=("host:a", "it's a key"),
    group="tenant",
    dedup=Dedup("one", Until.START),
    requires=("gpu",),
    max_charged=2,
    timeout=12.5,
    delay=3600,
)


@pytest.mark.spec("engine-27")
async def test_committed_tasks_are_run_by_a_worker(yard: Yard, caller: Caller) -> None:
    double = yard.task(name="double")(lambda number: number * 2)
    task = double.new(21)

    async with working(yard):
        assert await caller.enqueue(yard, task) == [Enqueued(task.id)]
        await caller.commit()

        assert (await ended(yard.handle(task.id))).result == "42"


@pytest.mark.spec("engine-27")
async def test_nobody_sees_them_before_the_commit(yard: Yard, caller: Caller) -> None:
    task = new()

    await caller.enqueue(yard, task)
    before = await yard.store.get(task.id)
    await caller.commit()
    after = await yard.store.get(task.id)

    assert before is None
    assert after is not None
    assert after.state is State.QUEUED


@pytest.mark.spec("engine-27")
async def test_what_is_rolled_back_never_was(yard: Yard, caller: Caller) -> None:
    tasks = [new("strange", lane="strange", dedup=Dedup("one")), new()]

    await caller.enqueue(yard, *tasks)
    await caller.rollback()

    assert sum((await yard.counts()).values()) == 0
    assert await yard.enqueue(*tasks) == [Enqueued(task.id) for task in tasks]
    assert [(await yard.get(task.id)).lane for task in tasks] == ["strange", "default"]


@pytest.mark.spec("engine-1", "engine-27")
async def test_a_task_is_kept_as_it_was_given(yard: Yard, caller: Caller) -> None:
    await caller.enqueue(yard, FULL)
    await caller.commit()

    kept = await yard.get(FULL.id)
    assert (kept.kind, kept.lane, kept.payload) == (FULL.kind, FULL.lane, FULL.payload)
    assert (kept.priority, kept.keys, kept.group) == (FULL.priority, FULL.keys, FULL.group)
    assert (kept.dedup, kept.requires, kept.max_charged) == ("one", FULL.requires, 2)
    assert (kept.timeout, kept.state) == (12.5, State.PENDING)


@pytest.mark.spec("engine-16", "engine-27")
async def test_ids_and_dedup_keys_are_kept_once(yard: Yard, caller: Caller) -> None:
    old, keeper = new(), new(dedup=Dedup("one"))
    await yard.enqueue(old, keeper)
    fresh, late = new(), new(dedup=Dedup("one"))

    answers = await caller.enqueue(yard, fresh, old, late)
    again = await caller.enqueue(yard, fresh)
    await caller.commit()

    assert answers == [Enqueued(fresh.id), Duplicate(old.id), Duplicate(keeper.id)]
    assert again == [Duplicate(fresh.id)]
    assert (await yard.counts())[State.QUEUED] == 3


@pytest.mark.spec("engine-23", "engine-27")
async def test_a_hint_follows_the_commit(yard: Yard, caller: Caller) -> None:
    listener = Listener(yard.store)
    await hears_while(listener, yard.store)

    await caller.enqueue(yard, new())
    await caller.commit()
    await listener.woken()

    listener.stop()


@pytest.mark.spec("engine-15", "engine-27")
async def test_a_wrong_task_leaves_the_transaction_usable(yard: Yard, caller: Caller) -> None:
    task = new()
    with pytest.raises(InvalidOption):
        await caller.enqueue(yard, new(), new(priority=11))

    await caller.enqueue(yard, task)
    await caller.commit()

    assert [seen.id for seen in await yard.find()] == [task.id]


@pytest.mark.spec("engine-27")
async def test_nothing_to_enqueue_is_no_mistake(yard: Yard, caller: Caller) -> None:
    assert await caller.enqueue(yard) == []
    await caller.rollback()
