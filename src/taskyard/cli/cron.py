"""`taskyard cron`: what is started periodically."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.application import load_yard
from taskyard.cli.group import group
from taskyard.cli.machine import iso, parsed, print_json
from taskyard.cli.render import cell, fixed, relative, show, table
from taskyard.cli.target import App, AppArgument, Json, Url, Where, actor, ask, ask_yard
from taskyard.cli.words import payload_from
from taskyard.domain.clock import Instant
from taskyard.domain.cron import CatchUp, CronEntry
from taskyard.yard import Yard

commands = group("What is started periodically.")

CronName = Annotated[str, typer.Argument(metavar="NAME", help="An entry.", show_default=False)]


@commands.command("list")
def list_crons(url: Url = None, app: App = None, as_json: Json = False) -> None:
    """All entries, and when each is started next."""
    _show(*ask(Where(url, app), _look), as_json)


@commands.command("set")
def set_cron(
    app: AppArgument,
    name: CronName,
    schedule: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE", help="minute hour day month weekday", show_default=False
        ),
    ],
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What to run.", show_default=False)],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments.", show_default=False),
    ] = None,
    *,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="Of the schedule.")] = "UTC",
    catch_up: Annotated[
        CatchUp, typer.Option(help="What becomes of ticks that passed unseen.")
    ] = CatchUp.ONE,
    as_json: Json = False,
) -> None:
    """Make or replace an entry.

    One that a program declares is yours from now on: it stays as you say here.
    """
    yard = load_yard(app)
    task = yard.kind(kind).from_payload(
        payload_from(yard.registry[kind].signature.parameters, None, words or ())
    )

    async def change(yard: Yard) -> tuple[list[CronEntry], Instant]:
        await yard.set_cron(
            name, schedule, task, timezone=timezone, catch_up=catch_up, actor=actor()
        )
        return await _look(yard)

    _show(*ask_yard(yard, change), as_json)


@commands.command()
def pause(name: CronName, url: Url = None, app: App = None, as_json: Json = False) -> None:
    """Start nothing of an entry until it is resumed."""
    _change(Where(url, app), lambda yard: yard.pause_cron(name, actor=actor()), as_json)


@commands.command()
def resume(name: CronName, url: Url = None, app: App = None, as_json: Json = False) -> None:
    """Go on with the next tick; those that passed meanwhile are not made up for."""
    _change(Where(url, app), lambda yard: yard.resume_cron(name, actor=actor()), as_json)


@commands.command()
def drop(name: CronName, url: Url = None, app: App = None, as_json: Json = False) -> None:
    """Forget an entry; one that a program declares comes back when that starts a worker."""
    _change(Where(url, app), lambda yard: yard.drop_cron(name, actor=actor()), as_json)


async def _look(yard: Yard) -> tuple[list[CronEntry], Instant]:
    return await yard.crons(), await yard.store.now()


def _change(where: Where, act: Callable[[Yard], Awaitable[None]], as_json: bool) -> None:
    async def change(yard: Yard) -> tuple[list[CronEntry], Instant]:
        await act(yard)
        return await _look(yard)

    _show(*ask(where, change), as_json)


def _show(entries: Sequence[CronEntry], now: Instant, as_json: bool) -> None:
    if as_json:
        print_json([_data(entry) for entry in entries])
    else:
        show(_table(entries, now) if entries else Text("nothing is started periodically"))


def _data(entry: CronEntry) -> dict[str, object]:
    cron = entry.cron
    return {
        "name": cron.name,
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "catch_up": cron.catch_up,
        "kind": cron.task.kind,
        "payload": parsed(cron.task.payload),
        "lane": cron.task.lane,
        "paused": cron.paused,
        "declared": cron.declared,
        "next_at": None if entry.next_at is None else iso(entry.next_at),
        "last_at": None if entry.last_at is None else iso(entry.last_at),
    }


def _table(entries: Sequence[CronEntry], now: Instant) -> RenderableType:
    return table(
        fixed("name"),
        fixed("schedule"),
        fixed("zone"),
        fixed("next"),
        fixed("last"),
        Column("starts"),
        Column(""),
        rows=[
            (
                cell(entry.cron.name),
                cell(entry.cron.schedule),
                cell(entry.cron.timezone, "dim"),
                cell("-" if entry.next_at is None else relative(entry.next_at, now)),
                cell("-" if entry.last_at is None else relative(entry.last_at, now), "dim"),
                cell(f"{entry.cron.task.kind} {entry.cron.task.payload}"),
                cell("paused" if entry.cron.paused else "", "magenta"),
            )
            for entry in entries
        ],
    )
