"""Each waiting task can say why it waits: the conditions of a claim, with holder or figure."""

from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.explain import Condition, Explanation, Wait
from taskyard.domain.state import State
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    LEASE_SECONDS,
    capacity,
    complete,
    enqueued,
    failed,
    finish,
    limit,
    node,
    pause,
    running,
    seen,
)


async def only_wait(store: Store, task_id: str) -> Wait:
    [wait] = (await store.explain(task_id)).waits
    return wait


def codes(explanation: Explanation) -> list[tuple[Condition, str]]:
    return [(wait.condition, wait.code) for wait in explanation.waits]


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_a_a_task_that_waits_for_its_time(store: Store) -> None:
    task_id = await enqueued(store, delay=60)

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.STATE, "not_due")
    assert wait.figures == {"run_at": (await seen(store, task_id)).run_at}
    assert wait.text.startswith("it is due in ")


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_a_a_task_that_waits_for_its_retry(store: Store) -> None:
    task = await running(store, await node(store))
    await finish(store, failed(task, delay=60))

    wait = await only_wait(store, task.id)

    assert (wait.condition, wait.code) == (Condition.STATE, "not_due")
    assert "after a failed attempt" in wait.text


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_a_a_task_past_its_deadline(store: Store, time: StoreTime) -> None:
    await node(store)
    deadline = await store.now() + SECOND
    task_id = await enqueued(store, deadline=deadline)
    await time.advance(2)

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.STATE, "expired")
    assert wait.figures == {"deadline": deadline}


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_c_a_paused_yard(store: Store) -> None:
    await node(store)
    task_id = await enqueued(store)
    await store.pause_yard(True, actor="ann")

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.LANE, "yard_paused")


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_c_a_paused_lane_with_its_reason(store: Store) -> None:
    await node(store)
    task_id = await enqueued(store, lane="slow")
    await pause(store, "slow", reason="disk full")

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.LANE, "lane_paused")
    assert wait.figures == {"lane": "slow"}
    assert "disk full" in wait.text


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_c_a_full_lane_with_its_figures(store: Store) -> None:
    worker = await node(store)
    await capacity(store, "slow", 1)
    held = await running(store, worker, lane="slow")
    task_id = await enqueued(store, lane="slow")

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.LANE, "lane_full")
    assert wait.figures == {"lane": "slow", "running": 1, "capacity": 1}
    await complete(store, held)
    assert (await store.explain(task_id)).waits == ()


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_d_a_full_key_with_its_holder(store: Store) -> None:
    worker = await node(store)
    held = await running(store, worker, keys=("sub:1",))
    task_id = await enqueued(store, keys=("other", "sub:1"))

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.KEYS, "key_full")
    assert wait.figures == {"key": "sub:1", "limit": 1, "holders": [held.id]}
    assert held.id in wait.text


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_d_every_full_key_is_named(store: Store) -> None:
    worker = await node(store)
    await running(store, worker, keys=("a",))
    await limit(store, "b", 0)
    task_id = await enqueued(store, keys=("a", "b"))

    waits = (await store.explain(task_id)).waits

    assert {wait.figures["key"]: wait.figures["limit"] for wait in waits} == {"a": 1, "b": 0}


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_e_a_kind_no_live_node_serves(store: Store, time: StoreTime) -> None:
    await node(store)
    await time.advance(LEASE_SECONDS + 1)
    task_id = await enqueued(store)

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.NODE, "no_node")
    assert wait.figures == {"kind": "work"}


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_e_a_capability_no_node_has(store: Store) -> None:
    await node(store)
    task_id = await enqueued(store, requires=("gpu",))

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code) == (Condition.NODE, "no_node")
    assert "gpu" in wait.text


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_e_nodes_that_drain(store: Store) -> None:
    worker = await node(store)
    task_id = await enqueued(store)
    await store.drain(worker.lease)

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code, wait.figures) == (
        Condition.NODE,
        "no_ready_node",
        {"nodes": 1},
    )


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_e_nodes_without_a_free_slot(store: Store) -> None:
    await running(store, await node(store, slots=1))
    task_id = await enqueued(store)

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code, wait.figures) == (
        Condition.NODE,
        "nodes_full",
        {"nodes": 1},
    )


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_e_an_older_incarnation_does_not_count(store: Store) -> None:
    await node(store, "node-a", kinds=("work",))
    await node(store, "node-a", kinds=("other",))
    task_id = await enqueued(store)

    assert codes(await store.explain(task_id)) == [(Condition.NODE, "no_node")]


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_f_others_come_first(store: Store) -> None:
    await node(store)
    for _ in range(3):
        await enqueued(store)
    task_id = await enqueued(store, priority=9)

    wait = await only_wait(store, task_id)

    assert (wait.condition, wait.code, wait.figures) == (
        Condition.ORDER,
        "not_first",
        {"before": 3},
    )


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_nothing_keeps_the_first(store: Store) -> None:
    await node(store)
    task_id = await enqueued(store)
    await enqueued(store)

    explanation = await store.explain(task_id)

    assert explanation == Explanation(task_id, State.QUEUED, ())
    assert explanation.text == "nothing keeps it: it is next"


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_full_keys_are_named_in_the_order_of_the_task(store: Store) -> None:
    worker = await node(store)
    await running(store, worker, keys=("a", "b"))
    task_id = await enqueued(store, keys=("b", "a"))

    waits = (await store.explain(task_id)).waits

    assert [wait.figures["key"] for wait in waits] == ["b", "a"]


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_every_condition_that_keeps_it_is_named(store: Store) -> None:
    worker = await node(store, slots=2)
    await capacity(store, "slow", 1)
    await running(store, worker, lane="slow", keys=("k",))
    await running(store, worker)
    task_id = await enqueued(store, lane="slow", keys=("k",))
    await pause(store, "slow")

    assert codes(await store.explain(task_id)) == [
        (Condition.LANE, "lane_paused"),
        (Condition.LANE, "lane_full"),
        (Condition.KEYS, "key_full"),
        (Condition.NODE, "nodes_full"),
    ]


@pytest.mark.spec("engine-14", "lifecycle-6")
async def test_a_task_that_does_not_wait_waits_for_nothing(store: Store) -> None:
    task = await running(store, await node(store))
    assert await store.explain(task.id) == Explanation(task.id, State.RUNNING, ())
    await complete(store, task)

    explanation = await store.explain(task.id)

    assert explanation.text == "it is not waiting: it is completed"


@pytest.mark.spec("engine-14")
async def test_f_tasks_of_other_kinds_in_the_lane_come_before_it_too(store: Store) -> None:
    await node(store, kinds=("work", "mail"))
    await enqueued(store, "mail")
    waiting = await enqueued(store)

    [wait] = (await store.explain(waiting)).waits

    assert (wait.condition, wait.figures) == (Condition.ORDER, {"before": 1})
