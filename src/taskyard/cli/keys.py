"""`taskyard keys`: who holds them, who waits for them, and how many may hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.group import group
from taskyard.cli.machine import plain, print_json
from taskyard.cli.rates import rate_text, read_limit, read_rate
from taskyard.cli.render import cell, number, right, show, table
from taskyard.cli.target import Json, Where, actor, ask, located
from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import Key, KeyRule

commands = group("Who holds keys, who waits for them, and how many may hold them.")

Pattern = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="A key, or a prefix as in host:*.", show_default=False),
]


@commands.command("list")
@located
def list_keys(
    limit: Annotated[int, typer.Option(metavar="N", help="Most to show.", min=1)] = 50,
    *,
    where: Where,
    as_json: Json = False,
) -> None:
    """The keys that are held or waited for, those most waited for first."""

    async def look(yard: Desk) -> list[Key]:
        return await yard.keys(limit)

    keys = ask(where, look)
    if as_json:
        print_json([plain(key) for key in keys])
    else:
        show(key_table(keys) if keys else Text("no key is held or waited for"))


@commands.command("rules")
@located
def list_rules(where: Where, as_json: Json = False) -> None:
    """The keys that more than one, or none, may hold; all others are for one at a time."""

    async def look(yard: Desk) -> list[KeyRule]:
        return await yard.key_rules()

    _show_rules(ask(where, look), as_json)


@commands.command("limit")
@located
def limit_key(
    pattern: Pattern,
    limit: Annotated[
        str,
        typer.Argument(
            metavar="N|none", help="How many may hold it; none: 1 again.", show_default=False
        ),
    ],
    *,
    rate: Annotated[
        str | None,
        typer.Option(metavar="N/TIME", help="How often one may start: 10/s, 100/m, 5/30s."),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --rate: so many at once after a quiet time.", min=1),
    ] = None,
    where: Where,
    as_json: Json = False,
) -> None:
    """Set how many may hold a key, or each key with a prefix."""
    if burst is not None and rate is None:
        raise InvalidOption("--burst goes with --rate")
    most = read_limit("a limit", limit)
    often = None if rate is None else read_rate(rate, burst)

    async def change(yard: Desk) -> list[KeyRule]:
        await yard.limit_key(pattern, most, rate=often, actor=actor())
        return await yard.key_rules()

    _show_rules(ask(where, change), as_json)


def _show_rules(rules: Sequence[KeyRule], as_json: bool) -> None:
    if as_json:
        print_json([plain(rule) for rule in rules])
        return
    rows = [
        (
            cell(rule.pattern),
            number(rule.limit),
            cell("" if rule.rate is None else rate_text(rule.rate), "dim"),
        )
        for rule in rules
    ]
    show(
        table(Column("keys"), right("limit"), Column(""), rows=rows)
        if rules
        else Text("no rules: each key is for one at a time")
    )


def key_table(keys: Sequence[Key]) -> RenderableType:
    return table(
        Column("key"),
        right("waiting"),
        right("limit"),
        Column("held by"),
        rows=[
            (cell(key.name), number(key.waiting), number(key.limit), cell(_holders(key), "dim"))
            for key in keys
        ],
    )


def _holders(key: Key) -> str:
    more = f" and {len(key.holders) - 1} more" if len(key.holders) > 1 else ""
    return f"{key.holders[0]}{more}" if key.holders else "nobody"
