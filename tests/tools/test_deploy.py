"""The files of deploy/ name only what is there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import typer

from taskyard.cli.main import app

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "taskyard-worker@.service"
COMMANDS = getattr(typer.main.get_command(app), "commands", {})


def started() -> list[str]:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # as the library says to
    unit.read(UNIT)
    return shlex.split(unit["Service"]["ExecStart"])


def options_of(command: str) -> set[str]:
    return {option for param in COMMANDS[command].params for option in param.opts}


def test_the_unit_starts_a_worker_with_options_that_exist() -> None:
    program, command, *rest = started()
    assert Path(program).name == "taskyard"
    assert {word for word in rest if word.startswith("--")} <= options_of(command)


def test_the_image_starts_a_worker_with_options_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["taskyard"]' in text
    found = re.search(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    assert found
    command, *rest = [word.strip().strip('"') for word in found[1].split(",")]
    assert {word for word in rest if word.startswith("--")} <= options_of(command)


def test_the_unit_waits_longer_than_a_worker_drains() -> None:
    wait = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert wait
    assert int(wait[1]) >= 30 + 5 + 5  # grace, what bodies get after it, and closing


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """With a program that is there in place of ours."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        assert "[Service]" in UNIT.read_text()
        return
    here = tmp_path / "taskyard-worker@1.service"
    here.write_text(UNIT.read_text().replace(started()[0], "/bin/true"))
    done = subprocess.run([tool, "verify", str(here)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("code", re.findall(r"\((\d+)\)", UNIT.read_text()))
def test_exit_codes_named_in_the_unit_are_ours(code: str) -> None:
    """Written as a number, or by the name the system has for it."""
    names = [name for name in dir(os) if name.startswith("EX_") and getattr(os, name) == int(code)]
    wanted = re.compile(rf"= (?:{'|'.join([code, *(f'os.{name}' for name in names)])})\b")
    source = Path(__file__).parents[2] / "src" / "taskyard"
    assert any(wanted.search(path.read_text("utf-8")) for path in source.rglob("*.py"))
