"""`taskyard lanes`: how much may run, and what is paused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.group import group
from taskyard.cli.machine import plain, print_json
from taskyard.cli.rates import rate_text, read_limit, read_rate
from taskyard.cli.render import cell, moment, number, right, show, table
from taskyard.cli.target import For, Json, Where, actor, ask, located
from taskyard.domain.errors import InvalidOption, NotFound
from taskyard.domain.lane import Lane, Order
from taskyard.settings import read_age

commands = group("How much may run at once, and what is paused.")

LaneName = Annotated[str, typer.Argument(metavar="NAME", help="A lane.", show_default=False)]


@commands.command("list")
@located
def list_lanes(where: Where, as_json: Json = False) -> None:
    """All lanes with what waits and runs in them."""

    async def look(yard: Desk) -> tuple[list[Lane], bool]:
        return await yard.lanes(), await yard.is_paused()

    lanes, paused = ask(where, look)
    if as_json:
        print_json([plain(lane) for lane in lanes])
        return
    if paused:
        show(Text("the yard is paused: nothing new starts (taskyard resume)\n", "magenta"))
    show(lane_table(lanes) if lanes else Text("no lanes"))


@commands.command("set")
@located
def set_lane(
    name: LaneName,
    *,
    capacity: Annotated[
        str | None, typer.Option(metavar="N|none", help="Most tasks running at once.")
    ] = None,
    max_depth: Annotated[
        str | None,
        typer.Option(metavar="N|none", help="Most tasks waiting; beyond it enqueue is refused."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="N/TIME|none", help="How often one may start: 10/s, 100/m, 5/30s."),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --rate: so many at once after a quiet time.", min=1),
    ] = None,
    order: Annotated[
        Order | None, typer.Option(help="By priority, by arrival alone, or by groups in turn.")
    ] = None,
    ageing: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|none", help="Waiting that counts as much as one step of priority."
        ),
    ] = None,
    where: Where,
    as_json: Json = False,
) -> None:
    """Change a lane, for all workers and at once.

    What is not said stays; a lane that is not there yet is made.
    """
    if burst is not None and rate is None:
        raise InvalidOption("--burst goes with --rate")
    said: dict[str, Any] = {}
    if capacity is not None:
        said["capacity"] = read_limit("--capacity", capacity)
    if max_depth is not None:
        said["max_depth"] = read_limit("--max-depth", max_depth)
    if rate is not None:
        said["rate"] = read_rate(rate, burst)
    if order is not None:
        said["order"] = order
    if ageing is not None:
        said["ageing"] = _seconds(ageing)
    if not said:
        raise InvalidOption(
            "say what to change: --capacity, --max-depth, --rate, --order, --ageing"
        )

    async def change(yard: Desk) -> Lane:
        return await yard.set_lane(name, **said, actor=actor())

    _changed(where, change, as_json)


@commands.command()
@located
def pause(
    name: LaneName,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for those who wonder.")
    ] = None,
    for_: For = None,
    where: Where,
    as_json: Json = False,
) -> None:
    """Start nothing new in a lane.

    What runs goes on, and enqueue still works.
    """
    span = None if for_ is None else read_age(for_)

    async def change(yard: Desk) -> Lane:
        await _require(yard, name)
        return await yard.pause_lane(name, reason=reason, for_=span, actor=actor())

    _changed(where, change, as_json)


@commands.command()
@located
def resume(name: LaneName, where: Where, as_json: Json = False) -> None:
    """Let a paused lane go on."""

    async def change(yard: Desk) -> Lane:
        await _require(yard, name)
        return await yard.resume_lane(name, actor=actor())

    _changed(where, change, as_json)


def _seconds(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidOption(f"--ageing takes seconds or none, not {text!r}") from None


async def _require(yard: Desk, name: str) -> None:
    """A slip of the pen must not make a lane that nothing runs in."""
    names = [lane.name for lane in await yard.lanes()]
    if name not in names:
        raise NotFound(f"there is no lane {name}; known are: {', '.join(names) or 'none'}")


def _changed(where: Where, change: Callable[[Desk], Awaitable[Lane]], as_json: bool) -> None:
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
    """What is special about it: paused, and its rules."""
    parts = [cell(", ".join(_rules(lane)), "dim")]
    if lane.paused:
        until = f" until {moment(lane.paused_until)}" if lane.paused_until else ""
        why = f": {lane.paused_reason}" if lane.paused_reason else ""
        parts.insert(0, cell(f"paused{until}{why}", "magenta"))
    return Text("  ").join(part for part in parts if part)


def _rules(lane: Lane) -> Iterator[str]:
    if lane.order is not Order.PRIORITY:
        yield lane.order
    if lane.ageing is not None:
        yield f"ageing {lane.ageing:g} s"
    if lane.rate is not None:
        yield rate_text(lane.rate)
    if lane.max_depth is not None:
        yield f"at most {lane.max_depth:,} wait"
