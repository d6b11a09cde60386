"""A task that kills its process, again and again."""

from __future__ import annotations

import signal

import pytest

from taskyard import Reason, State
from tests.crash.record import What
from tests.crash.scene import Scene


@pytest.mark.spec("engine-22")
async def test_a_task_that_kills_its_process_three_times_is_poison(scene: Scene) -> None:
    task_id = await scene.enqueue_one(scene.kinds.deadly.new())

    for life in (1, 2, 3):
        member = scene.crew.worker("a", kinds=("deadly",))
        assert member.wait() == -signal.SIGKILL
        assert scene.crew.find(What.DYING, pid=member.pid)[0].attempt == life
    survivor = scene.worker("a")

    task = await scene.ended(task_id)
    assert (task.state, task.reason) == (State.FAILED, Reason.POISON)
    assert (task.attempt, task.losses, task.payload) == (3, 3, "{}")
    assert [failure.reason for failure in task.failures] == [
        Reason.RESCUED,
        Reason.RESCUED,
        Reason.POISON,
    ]
    assert await scene.audited(task_id) == ["rescued", "rescued", "poison"]
    await scene.ended(await scene.enqueue_one(scene.kinds.quick.new([], "default")))
    assert survivor.alive
    assert await scene.broken() == []
