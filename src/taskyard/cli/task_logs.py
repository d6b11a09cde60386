"""`taskyard logs`: what the bodies of a task have said."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.machine import plain, print_json, print_json_line
from taskyard.cli.render import cell, moment, show
from taskyard.cli.target import Json, Where, ask, located
from taskyard.cli.tasks import TaskId
from taskyard.cli.text import clean
from taskyard.domain.logs import Level, LogLine, LogMark

_STYLES = {
    Level.DEBUG: "dim",
    Level.INFO: "cyan",
    Level.WARNING: "yellow",
    Level.ERROR: "red",
    Level.CRITICAL: "bold red",
}
_LEVEL_WIDTH = max(map(len, Level))


@located
def logs(
    task_id: TaskId,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is said, until it has ended.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", help="Only of this attempt.", min=1)
    ] = None,
    where: Where,
    as_json: Json = False,
) -> None:
    """What the bodies of a task have said, the oldest first."""
    after = None if attempt is None else (attempt, 0)

    async def look(yard: Desk) -> None:
        said = yard.follow_logs(task_id, after=after) if follow else _all(yard, task_id, after)
        wanted = said if attempt is None else _only(said, attempt)
        if not as_json:
            await _print(wanted)
        elif follow:
            async for line in wanted:
                print_json_line(_data(line))
        else:
            print_json([_data(line) async for line in wanted])

    ask(where, look)


async def _all(yard: Desk, task_id: str, after: LogMark | None) -> AsyncIterator[LogLine]:
    while lines := await yard.logs(task_id, after=after):
        for line in lines:
            yield line
        after = lines[-1].mark


async def _only(lines: AsyncIterator[LogLine], attempt: int) -> AsyncIterator[LogLine]:
    async for line in lines:
        if line.attempt != attempt:
            return
        yield line


async def _print(lines: AsyncIterator[LogLine]) -> None:
    attempt = 0
    async for line in lines:
        parts = [] if line.attempt == attempt else [Text(f"attempt {line.attempt}", style="bold")]
        attempt = line.attempt
        show(*parts, *_shown(line))
    if not attempt and sys.stdout.isatty():
        show(Text("nothing was said, or nothing of it is kept", style="dim"))


def _shown(line: LogLine) -> Iterator[Text]:
    first, *more = clean(line.text).split("\n")
    level = cell(line.level.ljust(_LEVEL_WIDTH), _STYLES[line.level])
    yield Text.assemble((moment(line.at), "dim"), "  ", level, "  ", first)
    for text in more:
        yield Text(f"    {text}")


def _data(line: LogLine) -> dict[str, Any]:
    data: dict[str, Any] = plain(line)
    return data
