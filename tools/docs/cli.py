"""The page of commands: arguments and options as the program itself declares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from taskyard.cli.main import app
from tools.docs.markdown import code, generated, table

DEFAULT = re.compile(r"\s*\[default: (.*?)\]\s*$")
REQUIRED = re.compile(r"\s*\[required\]\s*$")
# Told once, at the top.
EVERYWHERE = frozenset({"--help", "--json"})


def commands(
    command: Any = None, path: tuple[str, ...] = ("taskyard",)
) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    command = typer.main.get_command(app) if command is None else command
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, (*path, name))
    if not below:
        yield " ".join(path), command


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Commands", "")
    yield generated("the options that the program declares")
    yield "[The command line](../cli.md) explains them, with examples and exit codes."
    yield "Every command also knows `--json` and `--help`."
    yield ""
    for name, command in commands():
        yield from _command(name, command)


def _command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    first, _, rest = (command.help or "").partition("\n\n")
    yield from (f"## `{name}`", "", " ".join(first.split()), "")
    yield from ("```", _usage(command.get_usage(context)), "```", "")
    if rest.strip():
        yield from (rest.replace("\b", "").strip(), "")
    rows = [row for param in command.params if (row := _row(param, context))]
    yield from table(("", "default", ""), rows)


def _usage(text: str) -> str:
    """Typer puts braces around what is needed, and brackets around brackets."""
    return (
        re.sub(r"\{(\w+)(\.\.\.)?\}", r"\1", text.removeprefix("Usage: "))
        .replace("[[", "[")
        .replace("]]", "]")
    )


def _row(param: Any, context: typer.Context) -> tuple[str, str, str] | None:
    record = param.get_help_record(context)
    if record is None or EVERYWHERE & set(param.opts):
        return None
    name, text = record
    if param.param_type_name == "argument":
        name = re.sub(r"\s*<.*>$", "", name).strip("*[] ")
    default = DEFAULT.search(text)
    text = REQUIRED.sub("", DEFAULT.sub("", text))
    return code(name), default[1].strip("()") if default else "", text
