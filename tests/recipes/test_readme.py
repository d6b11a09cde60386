"""What the README shows works, and what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import taskyard
from taskyard import Context, Yard
from taskyard.cli.main import app
from tests.cli.program import PATIENCE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.spec("engine-32")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_prints_what_it_says(program: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == re.findall(r"# → (.*)$", program, re.MULTILINE)


def test_there_is_a_program_of_twenty_lines() -> None:
    [program] = PROGRAMS
    assert len([line for line in program.splitlines() if line.strip()]) <= 20


def test_every_target_of_make_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    told = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert {"demo", "serve", "test", "check", "spec", "crash", "bench"} <= told
    assert told <= set(re.findall(r"^(\w+):.*##", makefile, re.MULTILINE))


def test_make_demo_runs_what_is_there() -> None:
    """What each of them does is shown by test_examples.py."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    files = re.findall(r"\$\(BIN\)/python (examples/\S+)", makefile)
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_every_command_is_there() -> None:
    told = re.findall(r"`taskyard ([a-z]+(?: [a-z]+)?)", README)
    assert {"top", "config", "doctor", "copy", "tasks explain"} <= set(told)
    for command in told:
        found = typer.main.get_command(app)
        for word in command.split():
            found = getattr(found, "commands", {})[word]


def test_every_extra_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    told = set(re.findall(r"'\.\[(\w+)\]'", README))
    assert told == {"postgres", "redis", "server"}
    assert told <= set(project["optional-dependencies"])


@pytest.mark.parametrize(("name", "thing"), [("yard", Yard), ("ctx", Context)])
def test_every_verb_is_there(name: str, thing: type) -> None:
    told = set(re.findall(rf"\b{name}\.([a-z_]+)\(", README))
    assert told
    assert [verb for verb in told if not hasattr(thing, verb)] == []


def test_everything_imported_is_public() -> None:
    for names in re.findall(r"^from taskyard import (.*)$", README, re.MULTILINE):
        assert {name.strip() for name in names.split(",")} <= set(taskyard.__all__)


def test_what_is_not_there_yet_is_not_there_yet() -> None:
    """Whoever builds one of these tells the README."""
    absent = ("devices", "batches", "fleet", "sync")
    source = ROOT / "src" / "taskyard"
    assert [name for name in absent if (source / name).exists()] == []
    section = README.partition("## What is not there yet")[2].partition("## ")[0]
    assert all(name in section for name in absent)
