"""The page says all that the program can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import taskyard
from taskyard.cli.errors import EXIT_CODES, INTERRUPTED, PIPE_CLOSED
from taskyard.cli.main import app
from taskyard.settings import load

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
EVERYWHERE = {"--url", "--app", "--server", "--token-file", "--json", "--help", "-h"}
ALONE = {"--version", "--install-completion", "--show-completion"}


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, (*path, name))
    if not below:
        yield " ".join(path), command


COMMANDS = dict(commands(typer.main.get_command(app), ("taskyard",)))


def section(name: str) -> str:
    """The part of the page about a command, up to the next heading."""
    found = re.search(rf"^##+ `{name}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no heading for {name}"
    return found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_with_an_example(name: str) -> None:
    assert f"$ {name}" in section(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    options = {option for param in COMMANDS[name].params for option in param.opts}
    named = {option for option in options if option.startswith("-")} - EVERYWHERE
    missing = [option for option in named if not re.search(rf"`?{option}\b", section(name))]
    assert not missing


@pytest.mark.parametrize("option", sorted(EVERYWHERE | ALONE))
def test_the_options_of_all_commands_are_told_once(option: str) -> None:
    assert f"`{option}" in PAGE or f"{option}`" in PAGE


@pytest.mark.parametrize("code", sorted({0, INTERRUPTED, PIPE_CLOSED, *EXIT_CODES.values()}))
def test_every_exit_code_is_told(code: int) -> None:
    assert re.search(rf"^\| {code} \|", PAGE, re.MULTILINE)


def test_no_option_is_told_that_is_not_there() -> None:
    known = {option for command in COMMANDS.values() for p in command.params for option in p.opts}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert told <= known | EVERYWHERE | ALONE


SETTINGS = (Path(__file__).parents[2] / "docs" / "guides" / "settings.md").read_text("utf-8")


@pytest.mark.parametrize("name", [each.name for each in load(environ={}, folder=Path("/")).each])
def test_every_setting_is_told(name: str) -> None:
    assert f"`{name}`" in SETTINGS


def test_the_file_of_the_guide_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", SETTINGS, re.DOTALL)
    assert found
    (tmp_path / "taskyard.toml").write_text(found[1])
    loaded = load(environ={}, folder=tmp_path)
    assert loaded.settings.worker.slots == 8
    assert loaded.retention.lanes["previews"].completed is not None


def test_the_examples_show_the_newest_schema() -> None:
    """Of SQLite, which they are about."""
    migrations = Path(taskyard.__file__).parent / "store" / "sqlite" / "migrations"
    newest = max(int(path.name[:4]) for path in migrations.glob("*.sql"))
    assert set(re.findall(r"schema (\d+)\)", PAGE)) == {str(newest)}
