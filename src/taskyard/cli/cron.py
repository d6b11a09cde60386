"""`taskyard cron`: what is started periodically."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.group import group
from taskyard.cli.machine import iso, parsed, print_json
from taskyard.cli.render import cell, fixed, relative, show, table
from taskyard.cli.target import (
    AppArgument,
    Json,
    Server,
    TokenFile,
    Where,
    actor,
    ask,
    ask_yard,
    located,
    remote,
)
from taskyard.cli.words import payload_from
from taskyard.domain.clock import Instant
from taskyard.domain.cron import CatchUp, CronEntry
from taskyard.domain.errors import InvalidOption
from taskyard.yard import Yard

if TYPE_CHECKING:
    from taskyard.cli.remote import RemoteYard

commands = group("What is started periodically.")

CronName = Annotated[str, typer.Argument(metavar="NAME", help="An entry.", show_default=False)]


@commands.command("list")
@located
def list_crons(where: Where, as_json: Json = False) -> None:
    """All entries, and when each is started next."""
    _show(*ask(where, _look), as_json)


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
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="What to run.", show_default=False)
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments.", show_default=False),
    ] = None,
    *,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="Of the schedule.")] = "UTC",
    catch_up: Annotated[
        CatchUp, typer.Option(help="What becomes of ticks that passed unseen.")
    ] = CatchUp.ONE,
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Make or replace an entry.

    One that a program declares is yours from now on: it stays as you say here.
    """
    given = [app, name, schedule, *([] if kind is None else [kind, *(words or ())])]
    when = {"timezone": timezone, "catch_up": catch_up}
    if server is not None:
        _show(*ask_yard(remote(server, token_file), _set_there(given, when)), as_json)
        return
    if kind is None:
        raise InvalidOption("say what to run: taskyard cron set APP NAME SCHEDULE KIND")
    yard = Where(app=app, token_file=token_file).local()
    task = yard.kind(kind).from_payload(
        payload_from(yard.registry[kind].signature.parameters, None, words or ())
    )

    async def change(yard: Yard) -> tuple[list[CronEntry], Instant]:
        await yard.set_cron(
            name, schedule, task, timezone=timezone, catch_up=catch_up, actor=actor()
        )
        return await _look(yard)

    _show(*ask_yard(yard, change), as_json)


def _set_there(
    given: list[str], when: dict[str, str]
) -> Callable[[RemoteYard], Awaitable[tuple[list[CronEntry], Instant]]]:
    """At a server, which has the application: what is given begins with the name."""
    name, schedule, kind, *words = given

    async def change(yard: RemoteYard) -> tuple[list[CronEntry], Instant]:
        payload = payload_from(await yard.parameters(kind), None, words)
        await yard.set_cron(name, schedule, kind, payload, **when)
        return await _look(yard)

    return change


@commands.command()
@located
def pause(name: CronName, where: Where, as_json: Json = False) -> None:
    """Start nothing of an entry until it is resumed."""
    _change(where, lambda yard: yard.pause_cron(name, actor=actor()), as_json)


@commands.command()
@located
def resume(name: CronName, where: Where, as_json: Json = False) -> None:
    """Go on with the next tick; those that passed meanwhile are not made up for."""
    _change(where, lambda yard: yard.resume_cron(name, actor=actor()), as_json)


@commands.command()
@located
def drop(name: CronName, where: Where, as_json: Json = False) -> None:
    """Forget an entry; one that a program declares comes back when that starts a worker."""
    _change(where, lambda yard: yard.drop_cron(name, actor=actor()), as_json)


async def _look(yard: Desk) -> tuple[list[CronEntry], Instant]:
    return await yard.crons(), await yard.store.now()


def _change(where: Where, act: Callable[[Desk], Awaitable[None]], as_json: bool) -> None:
    async def change(yard: Desk) -> tuple[list[CronEntry], Instant]:
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
