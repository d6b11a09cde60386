"""What the pages about Celery say of Taskyard is so."""

from __future__ import annotations

import ast
import asyncio
import re
import tomllib
from pathlib import Path

import pytest
import typer

from taskyard import Yard
from taskyard.cli.main import app
from taskyard.kind import TaskKind
from tests.yard.test_guides import Guide

DOCS = Path(__file__).parents[2] / "docs"
MIGRATION = (DOCS / "celery" / "migration.md").read_text("utf-8")
COMPARISON = (DOCS / "celery" / "comparison.md").read_text("utf-8")


async def test_the_code_of_the_migration_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = Guide("../celery/migration")
    async with asyncio.timeout(120):
        await guide.run_on_loop()
    assert guide.printed == guide.promised


def test_each_example_stands_beside_one_of_celery() -> None:
    theirs = re.findall(r'^```py title="Celery"\n(.*?)^```', MIGRATION, re.MULTILINE | re.DOTALL)
    assert len(theirs) >= 8
    for code in theirs:
        ast.parse(code)


@pytest.mark.parametrize("page", [MIGRATION, COMPARISON], ids=["migration", "comparison"])
def test_every_command_is_there(page: str) -> None:
    told = re.findall(r"`taskyard ([a-z]+)", page)
    assert told
    assert set(told) <= set(getattr(typer.main.get_command(app), "commands", {}))


def test_every_option_of_an_enqueue_is_there() -> None:
    table = MIGRATION.partition("| `apply_async` | `options` |")[2].partition("\n\n")[0]
    said = {
        option
        for row in table.splitlines()[2:]
        for option in re.findall(r"`([a-z_]+)[`=]", row.split(" | ")[1])
    }
    assert {"delay", "deadline", "lane", "on_failure"} <= said
    known = set(TaskKind.options.__annotations__)
    assert said <= known


def test_every_verb_of_a_yard_is_there() -> None:
    told = set(re.findall(r"\byard\.([a-z_]+)", MIGRATION + COMPARISON)) - {"db"}
    assert [verb for verb in told if not hasattr(Yard, verb)] == []


def test_the_version_is_the_one_that_is_compared() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
    [told] = re.findall(r"Taskyard (\d+\.\d+), as they come", COMPARISON)
    assert project["version"].startswith(f"{told}.")
