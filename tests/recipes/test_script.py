"""docs/recipes/script.md, run as scripts are."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path

import pytest

from taskyard import State, TaskQuery, Yard
from tests.recipes.recipe import Recipe

FILES = 300


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe("script", tmp_path)


@pytest.fixture
def expected(recipe: Recipe) -> list[str]:
    """What the script is to print, for a folder of files."""
    folder = recipe.folder / "files"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:03}.txt").write_text(f"file {number}")
    return [
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.iterdir())
    ]


async def test_a_script_that_was_killed_goes_on(recipe: Recipe, expected: list[str]) -> None:
    process = recipe.start("digests.py", "files")
    assert process.stdout is not None
    seen = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert seen.strip() == expected[0]

    async with Yard(f"sqlite:///{recipe.folder / 'digests.db'}") as yard:
        query = TaskQuery(state=State.COMPLETED, limit=FILES)
        done = {task.id: task.ended_at for task in await yard.find(query)}
        assert len(done) >= 1

        again = recipe.run("digests.py", "files")
        assert (again.code, again.out.splitlines()) == (0, expected)

        tasks = await yard.find(query)
        assert len(tasks) == FILES
        assert {task.id: task.ended_at for task in tasks if task.id in done} == done


def test_a_script_that_only_enqueues(recipe: Recipe) -> None:
    assert recipe.run("order.py", "7").out == "enqueued\n"
    assert recipe.run("order.py", "7").out == "waits already\n"
    shell = recipe.run("-m", "taskyard", "enqueue", "order:yard", "send_receipt", "order=8")
    assert shell.code == 0
    with Yard(recipe.url).sync as yard, recipe.worker("order:yard"):
        sent = [yard.handle(task.id).result(timeout=60) for task in yard.find()]
    assert sent == ["receipt of order 8 sent", "receipt of order 7 sent"]
