"""A body that dies takes nothing with it, and is not run for ever."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard import Reason, State, TaskQuery, Yard
from tests.engine.isolated import isolated_yard, written
from tests.engine.waits import ended, found, working

GOOD = int(os.environ.get("TASKYARD_TEST_GOOD", "40"))
POISON = max(1, GOOD // 10)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with isolated_yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard


@pytest.mark.spec("engine-22", "reliability-14")
@pytest.mark.parametrize(
    ("kind", "how"), [("segfault", "killed by SIGSEGV"), ("exits", "left with exit code 7")]
)
async def test_three_deaths_are_poison(yard: Yard, kind: str, how: str) -> None:
    async with working(yard):
        task = await ended(await yard.kind(kind).enqueue())
    assert (task.state, task.reason) == (State.FAILED, Reason.POISON)
    assert (task.attempt, task.charged, task.losses, task.payload) == (3, 3, 3, "{}")
    reasons = [failure.reason for failure in task.failures]
    assert reasons == [Reason.LOST, Reason.LOST, Reason.POISON]
    assert all(each.error is not None and how in each.error.message for each in task.failures)
    audited = [each.action for each in await yard.audit() if each.subject == f"task:{task.id}"]
    assert sorted(audited) == ["lost", "lost", "poison"]


async def test_without_retries_one_death_is_the_end(yard: Yard) -> None:
    async with working(yard):
        task = await ended(await yard.kind("killed_once").enqueue())
    assert (task.state, task.reason) == (State.FAILED, Reason.LOST)
    assert (task.charged, task.losses) == (1, 1)
    assert task.error is not None
    assert "killed by SIGKILL" in task.error.message


@pytest.mark.spec("engine-22", "reliability-14")
async def test_neighbours_of_poison_all_complete(yard: Yard) -> None:
    """Beside each other in one worker: isolated ones, and one on the loop."""
    bad = [yard.kind("segfault").new() for _ in range(POISON)]
    good = [yard.kind("add").new(number) for number in range(GOOD)]
    step = GOOD // POISON
    mixed = [task for at in range(POISON) for task in (bad[at], *good[at * step : (at + 1) * step])]
    await yard.enqueue(*mixed, yard.kind("neighbour").new())

    async def all_ended() -> dict[State, int] | None:
        counts = {state: n for state, n in (await yard.counts()).items() if n}
        return counts if set(counts) <= {State.COMPLETED, State.FAILED} else None

    async with working(yard, slots=4):
        counts = await found(yard, all_ended, limit=600.0)
    assert counts == {State.COMPLETED: GOOD + 1, State.FAILED: POISON}
    dead = await yard.find(TaskQuery(state=State.FAILED, limit=POISON + 1))
    assert {(task.kind, task.reason, task.losses) for task in dead} == {
        ("segfault", Reason.POISON, 3)
    }
    done = await yard.find(TaskQuery(state=State.COMPLETED, kind="add", limit=GOOD))
    assert {(task.charged, task.losses) for task in done} == {(1, 0)}


# --- memory ---


@pytest.mark.spec("lifecycle-13", "reliability-14")
@pytest.mark.parametrize("kind", ["hog", "hog_at_once", "hog_below"])
async def test_a_body_over_its_memory_limit_fails_and_the_worker_lives_on(
    yard: Yard, kind: str
) -> None:
    async with working(yard):
        task = await ended(await yard.kind(kind).enqueue())
        assert await (await yard.kind("neighbour").enqueue()).result(20) == os.getpid()
    assert (task.state, task.reason) == (State.FAILED, Reason.ERROR)
    assert (task.charged, task.losses) == (1, 0)
    assert task.error is not None
    assert task.error.type == "out_of_memory"


@pytest.mark.spec("lifecycle-13")
async def test_memory_shared_with_forks_counts_once(yard: Yard, tmp_path: Path) -> None:
    async with working(yard):
        handle = await yard.kind("shares").enqueue(str(tmp_path))
        await written(tmp_path, "sharing")
        keeper_looks = yard.kind("hog_below")  # over its limit: found by the same look at trees
        await ended(await keeper_looks.enqueue())
        (tmp_path / "enough").touch()
        assert await handle.result(20) == 90_000_000


async def test_a_child_that_has_grown_is_replaced(yard: Yard) -> None:
    async with working(yard):
        first = await (await yard.kind("grows").enqueue()).result(20)
        second = await (await yard.kind("grows").enqueue()).result(20)
    assert first != second
