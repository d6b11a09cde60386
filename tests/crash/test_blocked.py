"""Faults 5 and 6: the event loop is blocked, or a body hangs."""

from __future__ import annotations

import pytest

from taskyard import Reason, State
from taskyard.engine.heartbeat import EXIT_LOOP_BLOCKED
from tests.crash.record import What
from tests.crash.scene import Scene


@pytest.mark.spec("reliability-5", "engine-20")
async def test_a_loop_blocked_for_three_leases_is_no_death(scene: Scene) -> None:
    scene.lease = 3.0
    scene.worker("rescuer", "quick")
    blocked = scene.worker("blocked", "blocking")
    before = await scene.node("blocked")

    task_id = await scene.enqueue_one(scene.kinds.blocking.new([], "default", 3 * scene.lease))
    task = await scene.ended(task_id)

    assert (task.state, task.attempt) == (State.COMPLETED, 1)
    assert await scene.audited(task_id) == []
    assert blocked.alive
    after = await scene.node("blocked")
    assert before is not None
    assert after is not None
    assert after.lease == before.lease
    assert await scene.broken() == []


@pytest.mark.spec("reliability-5", "engine-13", "engine-19")
async def test_what_was_claimed_while_the_loop_was_blocked_is_kept(scene: Scene) -> None:
    """Its answer waits behind several beats, each of which says that the node holds it."""
    scene.lease = 4.0
    scene.worker("blocked", "claims_while_blocked", "slow")

    task_id = await scene.enqueue_one(scene.kinds.claims_while_blocked.new(2 * scene.lease))
    assert (await scene.ended(task_id)).attempt == 1

    [child] = [task for task in await scene.yard.find() if task.kind == "slow"]
    ended = await scene.ended(child.id)
    assert (ended.state, ended.attempt) == (State.COMPLETED, 1)
    assert await scene.broken() == []


@pytest.mark.spec("reliability-5", "engine-20")
async def test_a_loop_blocked_beyond_a_timeout_ends_the_process(scene: Scene) -> None:
    scene.lease = 10.0
    neighbour = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
    blocked = scene.worker("blocked", "blocking", "gated", grace=0.5)
    scene.started(neighbour)
    blocking = scene.kinds.blocking.options(timeout=0.5, retries=0).new([], "default", 600.0)
    task_id = await scene.enqueue_one(blocking)

    assert blocked.wait() == EXIT_LOOP_BLOCKED
    assert scene.crew.find(What.LEFT, pid=blocked.pid)[0].how == str(EXIT_LOOP_BLOCKED)

    scene.worker("second", "gated")
    scene.started(neighbour, 2)
    scene.open_gate()
    blocker, rescued = await scene.all_ended(task_id, neighbour)
    assert (blocker.state, blocker.reason) == (State.FAILED, Reason.LOST)
    assert (rescued.state, rescued.attempt) == (State.COMPLETED, 2)
    assert await scene.broken() == []


@pytest.mark.spec("reliability-6", "engine-20")
async def test_a_timeout_ends_a_body_that_hangs(scene: Scene) -> None:
    scene.lease = 30.0
    member = scene.worker("a")
    before = await scene.node("a")
    kinds = scene.kinds
    ids = await scene.enqueue(
        kinds.hanging.options(timeout=0.3).new(), kinds.hanging_thread.options(timeout=0.3).new()
    )

    for task in await scene.all_ended(*ids):
        assert (task.state, task.reason) == (State.FAILED, Reason.TIMEOUT)
        assert (task.attempt, task.charged) == (2, 2)
        assert [failure.reason for failure in task.failures] == [Reason.TIMEOUT, Reason.TIMEOUT]
    after = await scene.node("a")
    assert before is not None
    assert after is not None
    assert (after.lease, after.running) == (before.lease, 0)
    assert member.alive
    assert await scene.broken() == []
