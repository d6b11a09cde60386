"""Fault 1: workers are killed at random instants under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.run import Plan, Run


@pytest.mark.spec("reliability-1", "engine-18", "engine-19", "engine-20")
@pytest.mark.parametrize("seed", [1, 2])
async def test_killed_workers_break_no_promise(tmp_path: Path, seed: int) -> None:
    plan = Plan(kills=12, seed=seed, pause=0.15, tasks_per_kill=40)

    outcome = await Run(plan, tmp_path).run()

    assert [text for found in outcome.findings for text in found.violations] == []
    assert outcome.kills >= plan.kills
    assert outcome.tasks >= plan.kills * plan.tasks_per_kill


@pytest.mark.spec("reliability-1", "engine-18", "engine-19", "engine-20")
@pytest.mark.parametrize("store", ["postgres", "redis"])
async def test_killed_workers_and_a_killed_server_break_no_promise(
    tmp_path: Path, store: str
) -> None:
    plan = Plan(
        kills=4, seed=4, store=store, server_kills=1, workers=2, enqueuers=1, tasks_per_kill=40
    )

    outcome = await Run(plan, tmp_path).run()

    assert [text for found in outcome.findings for text in found.violations] == []
    assert outcome.server_kills == 1
    assert outcome.tasks >= plan.kills * plan.tasks_per_kill


@pytest.mark.spec("engine-3", "engine-10", "reliability-20")
async def test_1000_tasks_over_10_keys_with_kills(tmp_path: Path) -> None:
    plan = Plan(kills=10, seed=3, pause=0.2, tasks_per_kill=100, keyed=1.0)

    outcome = await Run(plan, tmp_path).run()

    checked = {found.letter: found.checked for found in outcome.findings}
    assert [text for found in outcome.findings for text in found.violations] == []
    assert checked["M"] >= 1000


@pytest.mark.spec("engine-17")
@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"])
async def test_graphs_with_kills(tmp_path: Path, store: str) -> None:
    """Tasks that depend on others of their own call and of earlier ones, in long chains."""
    plan = Plan(
        kills=5, seed=5, store=store, server_kills=0, pause=0.2, tasks_per_kill=40, linked=0.8
    )

    outcome = await Run(plan, tmp_path).run()

    checked = {found.letter: found.checked for found in outcome.findings}
    assert [text for found in outcome.findings for text in found.violations] == []
    assert checked["D"] >= 100
