"""SIGTERM: what runs may finish, the rest goes back; a second signal stops at once."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import pytest

from taskyard import Reason, State
from tests.crash.crew import PATIENCE, Member
from tests.crash.scene import Scene

SECOND_SIGNAL = 130


@pytest.mark.spec("engine-24", "engine-18")
async def test_a_drain_under_load_loses_and_charges_nothing(scene: Scene) -> None:
    kinds = scene.kinds
    scene.lease = 30.0
    worker = scene.worker("a", slots=4, grace=1.0)
    finishing = await scene.enqueue(*(kinds.slow.new([], "default", 0.5) for _ in range(2)))
    hanging = await scene.enqueue(*(kinds.gated.new(str(scene.gate), []) for _ in range(2)))
    for task_id in (*finishing, *hanging):
        scene.started(task_id)
    waiting = await scene.enqueue(*(kinds.quick.new([], "default") for _ in range(50)))

    worker.terminate()
    assert worker.wait() == 0

    for task_id in finishing:
        task = await scene.yard.get(task_id)
        assert (task.state, task.attempt) == (State.COMPLETED, 1)
    for task_id in hanging:
        task = await scene.yard.get(task_id)
        assert (task.state, task.reason) == (State.QUEUED, Reason.RELEASED)
        assert (task.charged, task.losses, task.failures) == (0, 0, ())
    assert await scene.node("a") is None

    scene.open_gate()
    scene.worker("b")
    tasks = await scene.all_ended(*finishing, *hanging, *waiting)
    assert {task.state for task in tasks} == {State.COMPLETED}
    assert {task.charged for task in tasks} == {1}
    assert await scene.broken() == []


@pytest.mark.spec("engine-24")
async def test_a_drain_claims_nothing_more(scene: Scene) -> None:
    scene.lease = 30.0
    worker = scene.worker("a", grace=30.0)
    held = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
    scene.started(held)
    worker.terminate()
    await scene.node_until("a", lambda node: node is not None and node.state == "draining")

    late = await scene.enqueue_one(scene.kinds.quick.new([], "default"))
    scene.open_gate()
    assert worker.wait() == 0

    assert (await scene.yard.get(held)).state is State.COMPLETED
    task = await scene.yard.get(late)
    assert (task.state, task.attempt) == (State.QUEUED, 0)


@pytest.mark.spec("engine-24")
async def test_a_signal_that_arrives_twice_is_one(scene: Scene) -> None:
    """As from `timeout`, which sends it to the process and to its group."""
    scene.lease = 30.0
    worker = scene.worker("a", grace=600.0)
    held = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
    scene.started(held)
    worker.terminate()
    os.kill(worker.pid, signal.SIGINT)  # two of one name may be merged on their way
    await scene.node_until("a", lambda node: node is not None and node.state == "draining")
    scene.open_gate()
    assert worker.wait() == 0
    assert (await scene.yard.get(held)).state is State.COMPLETED


async def insist(worker: Member) -> None:
    """Send the signal until it is heard as another one."""
    async with asyncio.timeout(PATIENCE):
        while worker.alive:
            with suppress(ProcessLookupError):
                worker.terminate()
            await asyncio.sleep(0.05)


@pytest.mark.spec("engine-24")
@pytest.mark.parametrize("stubborn", [False, True], ids=["willing", "stubborn"])
async def test_a_second_signal_stops_at_once(scene: Scene, stubborn: bool) -> None:
    """Also when a body will not be cancelled: its process takes it along."""
    scene.lease = 30.0
    kinds, gate = scene.kinds, str(scene.gate)
    task_id = await scene.enqueue_one(kinds.stubborn.new(gate) if stubborn else kinds.hanging.new())
    worker = scene.worker("a", grace=600.0)
    scene.started(task_id)
    worker.terminate()
    await scene.node_until("a", lambda node: node is not None and node.state == "draining")

    await insist(worker)
    assert worker.wait() == SECOND_SIGNAL

    scene.open_gate()
    scene.worker("b")
    scene.started(task_id, 2)
