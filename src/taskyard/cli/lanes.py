"""`taskyard lanes`: how much may run, and what is paused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.group import group
from taskyard.cli.machine import plain, print_json
from taskyard.cli.render import cell, number, right, show, table
from taskyard.cli.target import App, Json, Url, Where, actor, ask
from taskyard.domain.errors import InvalidOption, NotFound
from taskyard.domain.lane import Lane
from taskyard.yard import Yard

commands = group("How much may run at once, and what is paused.")

LaneName = Annotated[str, typer.Argument(metavar="NAME", help="A lane.", show_default=False)]


@commands.command("list")
def list_lanes(url: Url = None, app: App = None, as_json: Json = False) -> None:
    """All lanes with what waits and runs in them."""

    async def look(yard: Yard) -> list[Lane]:
        return await yard.lanes()

    lanes = ask(Where(url, app), look)
    if as_json:
        print_json([plain(lane) for lane in lanes])
    else:
        show(lane_table(lanes) if lanes else Text("no lanes"))


@commands.command("set")
def set_lane(
    name: LaneName,
    capacity: Annotated[
        str, typer.Option(metavar="N|none", help="Most tasks running at once.", show_default=False)
    ],
    url: Url = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Change how much of a lane may run at once.

    Over all workers; a lane that is not there yet is made.
    """
    limit = _capacity(capacity)

    async def change(yard: Yard) -> Lane:
        return await yard.set_lane(name, capacity=limit, actor=actor())

    _changed(Where(url, app), change, as_json)


@commands.command()
def pause(
    name: LaneName,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for those who wonder.")
    ] = None,
    url: Url = None,
    app: App = None,
    as_json: Json = False,
) -> None:
    """Start nothing new in a lane.

    What runs goes on, and enqueue still works.
    """

    async def change(yard: Yard) -> Lane:
        await _require(yard, name)
        return await yard.pause_lane(name, reason=reason, actor=actor())

    _changed(Where(url, app), change, as_json)


@commands.command()
def resume(name: LaneName, url: Url = None, app: App = None, as_json: Json = False) -> None:
    """Let a paused lane go on."""

    async def change(yard: Yard) -> Lane:
        await _require(yard, name)
        return await yard.resume_lane(name, actor=actor())

    _changed(Where(url, app), change, as_json)


def _capacity(text: str) -> int | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidOption(f"--capacity takes a number or none, not {text!r}") from None


async def _require(yard: Yard, name: str) -> None:
    """A slip of the pen must not make a lane that nothing runs in."""
    names = [lane.name for lane in await yard.lanes()]
    if name not in names:
        raise NotFound(f"there is no lane {name}; known are: {', '.join(names) or 'none'}")


def _changed(where: Where, change: Callable[[Yard], Awaitable[Lane]], as_json: bool) -> None:
    lane = ask(where, change)
    if as_json:
        print_json(plain(lane))
    else:
        show(lane_table([lane]))


def lane_table(lanes: Sequence[Lane]) -> RenderableType:
    return table(
        Column("lane"),
        right("running"),
        right("capacity"),
        right("queued"),
        right("pending"),
        Column(""),
        rows=[_row(lane) for lane in lanes],
    )


def _row(lane: Lane) -> tuple[Text, ...]:
    full = lane.capacity is not None and lane.running >= lane.capacity
    return (
        cell(lane.name),
        cell(lane.running, "yellow" if full else "" if lane.running else "dim"),
        cell(
            "none" if lane.capacity is None else lane.capacity,
            "dim" if lane.capacity is None else "",
        ),
        number(lane.queued),
        number(lane.pending),
        _condition(lane),
    )


def _condition(lane: Lane) -> Text:
    if not lane.paused:
        return cell("")
    return cell(f"paused: {lane.paused_reason}" if lane.paused_reason else "paused", "magenta")
