"""Faults 3 and 4: processes that are stopped and go on, beyond their lease and within it."""

from __future__ import annotations

import asyncio

import pytest

from taskyard import State
from taskyard.engine.heartbeat import EXIT_LEASE_ENDED
from tests.crash.crew import wait_for
from tests.crash.record import What
from tests.crash.scene import Scene


@pytest.mark.spec("reliability-3", "engine-19", "engine-20")
async def test_a_zombie_changes_nothing(scene: Scene) -> None:
    key = ["account:1"]
    parent = scene.kinds.parent.options(keys=key).new(str(scene.gate), key)
    task_id = await scene.enqueue_one(parent)
    zombie = scene.worker("zombie", "parent", "slow")
    scene.started(task_id)
    scene.freeze(zombie)

    scene.worker("second", "parent", "quick")
    scene.started(task_id, 2)
    after = scene.kinds.quick.options(keys=key).new(key, "default")
    follower = await scene.enqueue_one(after)
    scene.open_gate()
    believed = await scene.ended(task_id)
    zombie.thaw()
    scene.crew.await_line(What.END, task=task_id, attempt=1)
    await scene.ended(follower)

    # It has noticed, and works on under a new lease.
    await scene.ended(await scene.enqueue_one(scene.kinds.slow.new([], "default", 0.01)))
    assert await scene.yard.get(task_id) == believed
    assert (believed.state, believed.attempt, believed.result) == (State.COMPLETED, 2, "2")
    assert believed.progress is not None
    assert believed.progress.note == "attempt 2"
    assert [task.kind for task in await scene.yard.find()].count("quick") == 2
    assert await scene.store.keys() == []
    assert await scene.broken() == []


@pytest.mark.spec("reliability-3", "engine-19", "engine-20")
async def test_a_thread_that_outlives_its_lease_takes_its_process_along(scene: Scene) -> None:
    """The same worker must not start the task again beside a body it cannot stop."""
    task_id = await scene.enqueue_one(scene.kinds.gated_thread.new(str(scene.gate)))
    zombie = scene.worker("zombie", "gated_thread")
    scene.started(task_id)
    scene.worker("rescuer", "quick")
    scene.freeze(zombie)
    await scene.until(task_id, lambda task: task.state is State.QUEUED)

    zombie.thaw()
    assert zombie.wait() == EXIT_LEASE_ENDED
    assert scene.crew.find(What.START, task=task_id, attempt=2) == []

    scene.worker("zombie", "gated_thread")
    scene.started(task_id, 2)
    scene.open_gate()
    task = await scene.ended(task_id)
    assert (task.state, task.attempt, task.result) == (State.COMPLETED, 2, "2")
    assert await scene.broken() == []


@pytest.mark.spec("reliability-3", "engine-20")
async def test_when_all_were_frozen_nobody_is_rescued(scene: Scene) -> None:
    """A paused machine lets every lease end at once; whoever wakes first must not judge by it."""
    scene.lease = 3.0
    members = [scene.worker(name) for name in ("a", "b", "c")]
    ids = await scene.enqueue(
        *(scene.kinds.gated.new(str(scene.gate), []) for _ in range(12)),
    )
    for task_id in ids:
        scene.started(task_id)
    await asyncio.sleep(scene.lease + 0.5)  # all have been in contact for a full lease
    for member in members:
        scene.freeze(member)
    for name in ("a", "b", "c"):
        await scene.node_until(name, lambda node: node is not None and node.lease_left < -0.5)

    for member in members:
        member.thaw()
    for name in ("a", "b", "c"):
        await scene.node_until(name, lambda node: node is not None and node.lease_left > 0)
    await asyncio.sleep(scene.lease + 2.0)  # rescuers look every second
    scene.open_gate()

    tasks = await scene.all_ended(*ids)
    assert {(task.state, task.losses) for task in tasks} == {(State.COMPLETED, 0)}
    assert await scene.broken() == []


@pytest.mark.spec("reliability-4", "engine-20")
async def test_frozen_for_less_than_its_lease_is_not_rescued(scene: Scene) -> None:
    scene.lease = 10.0
    frozen = scene.worker("frozen", "gated")
    scene.worker("rescuer", "quick", lease=0.5)
    task_id = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
    scene.started(task_id)

    scene.freeze(frozen)
    await scene.node_until("frozen", lambda node: node is not None and node.lease_left < 5.0)
    frozen.thaw()
    await scene.node_until("frozen", lambda node: node is not None and node.lease_left > 6.0)
    scene.open_gate()

    task = await scene.ended(task_id)
    assert (task.state, task.attempt) == (State.COMPLETED, 1)
    assert await scene.audited(task_id) == []
    assert await scene.broken() == []


def test_freezing_really_stops_a_process(scene: Scene) -> None:
    member = scene.worker("a")
    member.freeze()
    before = len(scene.crew.lines())

    member.terminate()  # reaches it only when it goes on
    assert member.alive
    assert len(scene.crew.lines()) == before

    member.thaw()
    wait_for(lambda: not member.alive, "its end")
