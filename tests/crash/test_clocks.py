"""Fault 11: the clocks of workers are wrong, or jump. Leases and due times are by the server's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskyard import NewTask, State
from taskyard.domain.task import new_task_id
from tests.crash.conftest import Stage
from tests.crash.record import What
from tests.crash.scene import Scene
from tests.servers.redis import RedisServer

HOUR = 3600.0
WRONG: dict[str, dict[str, Any]] = {
    "ahead": {"clock": HOUR},
    "behind": {"clock": -HOUR},
    "jumping": {"clock": HOUR, "jumping": True},
}


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(params=["postgres", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue(request.param)
    return f"{server.url}?namespace=test_{new_task_id()}"


async def test_wrong_clocks_are_wrong(url: str, stage: Stage) -> None:
    """Otherwise nothing is shown here."""
    async with stage(url) as scene:
        scene.worker("ahead", clock=HOUR)
        task_id = await scene.enqueue_one(scene.kinds.what_time.new())
        task = await scene.ended(task_id)
        assert float(task.result or 0) > datetime.now(UTC).timestamp() + HOUR / 2


@pytest.mark.spec("reliability-11", "engine-21")
async def test_workers_with_wrong_clocks_keep_leases_and_due_times(url: str, stage: Stage) -> None:
    async with stage(url) as scene:
        scene.lease = 5.0
        kinds = scene.kinds
        members = [scene.worker(name, **wrong) for name, wrong in WRONG.items()]
        held = await scene.enqueue(
            *(kinds.gated.new(str(scene.gate), []) for _ in range(6)),
        )
        for task_id in held:
            scene.started(task_id)
        due = datetime.now(UTC) + timedelta(seconds=1.5)
        later = await scene.enqueue(
            *(kinds.quick.options(run_at=due).new([], "default") for _ in range(6)),
            *(kinds.flaky.new([], "default", 1) for _ in range(6)),
        )
        far = await scene.enqueue_one(kinds.quick.options(delay=HOUR / 2).new([], "default"))

        await asyncio.sleep(1.5 * scene.lease)  # whoever would judge a lease wrongly has done so
        scene.open_gate()

        tasks = await scene.all_ended(*held, *later)
        assert {(task.state, task.losses) for task in tasks} == {(State.COMPLETED, 0)}
        assert {task.attempt for task in tasks[: len(held)]} == {1}
        begun = [scene.crew.find(What.START, task=task_id)[0].wall for task_id in later[:6]]
        assert min(begun) >= due.timestamp() * 1e6
        assert (await scene.yard.get(far)).state is State.PENDING
        await scene.yard.cancel(far)
        assert all(member.alive for member in members)
        assert await scene.broken() == []


@pytest.mark.spec("reliability-11", "engine-9")
@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_clock_does_not_change_the_order(url: str, stage: Stage, name: str) -> None:
    async with stage(url) as scene:
        scene.lease = 30.0
        ids = {
            priority: await scene.enqueue_one(_with_priority(scene, priority))
            for priority in (5, 9, 1, 7, 3)
        }
        scene.worker(name, slots=1, **WRONG[name])

        await scene.all_ended(*ids.values())

        starts = sorted(scene.crew.find(What.START), key=lambda line: line.at)
        assert [line.task for line in starts] == [ids[priority] for priority in sorted(ids)]
        assert await scene.broken() == []


def _with_priority(scene: Scene, priority: int) -> NewTask:
    return scene.kinds.slow.options(priority=priority).new([], "default", 0.02)
