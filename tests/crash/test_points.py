"""Fault 2: a worker is killed at every named point, and a second one goes on."""

from __future__ import annotations

import signal

import pytest

from taskyard import State
from taskyard.domain.points import Point
from tests.crash.record import What
from tests.crash.scene import Scene

# A worker that has room writes outcomes and claims in one step; these two are passed in a drain.
DRAINING = (Point.BEFORE_FINISH, Point.AFTER_FINISH)
PASSES = {
    Point.BEFORE_CLAIM: (1, 2),
    Point.AFTER_CLAIM: (1, 2),
    Point.BEFORE_BODY: (1, 5),
    Point.AFTER_BODY: (1, 5),
    Point.BEFORE_COMMIT: (3, 6, 9),
    Point.AFTER_COMMIT: (3, 6, 9),
}


def test_every_named_point_is_tried() -> None:
    assert {*PASSES, *DRAINING} == set(Point)


@pytest.mark.spec("reliability-2", "engine-18", "engine-19")
@pytest.mark.parametrize(
    ("point", "passes"), [(point, n) for point, several in PASSES.items() for n in several]
)
async def test_a_kill_at_a_named_point_breaks_no_promise(
    scene: Scene, point: Point, passes: int
) -> None:
    kinds = scene.kinds
    ids = await scene.enqueue(
        *(kinds.quick.new([], "default") for _ in range(6)),
        *(kinds.quick.options(key="k").new(["k"], "default") for _ in range(3)),
        *(kinds.thread.new([], "default", 0.02) for _ in range(3)),
        kinds.flaky.new([], "default", 1),
    )
    victim = scene.crew.worker("victim", slots=4, kill_at=(point, passes))

    assert victim.wait() == -signal.SIGKILL
    assert scene.crew.find(What.DYING, pid=victim.pid)[0].how == point

    scene.worker("second")
    tasks = await scene.all_ended(*ids)
    assert {task.state for task in tasks} == {State.COMPLETED}
    assert await scene.broken() == []


@pytest.mark.spec("reliability-2", "engine-18", "engine-24")
@pytest.mark.parametrize("point", DRAINING)
async def test_a_kill_at_a_named_point_of_a_drain_breaks_no_promise(
    scene: Scene, point: Point
) -> None:
    task_id = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
    victim = scene.crew.worker("victim", kill_at=(point, 1), grace=30.0, lease=30.0)
    scene.started(task_id)
    victim.terminate()
    await scene.node_until("victim", lambda node: node is not None and node.state == "draining")

    scene.open_gate()
    assert victim.wait() == -signal.SIGKILL

    scene.worker("second")
    task = await scene.ended(task_id)
    assert (task.state, task.attempt) == (
        State.COMPLETED,
        2 if point is Point.BEFORE_FINISH else 1,
    )
    assert await scene.broken() == []
