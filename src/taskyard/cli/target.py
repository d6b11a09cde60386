"""Which yard a command means: an application's, or the one at a URL."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec
import typer

from taskyard.cli.application import load_yard
from taskyard.cli.errors import NoYard
from taskyard.domain.errors import InvalidOption
from taskyard.settings import DEFAULT_URL, FILE, load, variable
from taskyard.store.passwords import without_secrets
from taskyard.yard import Yard

T = TypeVar("T")

AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="The yard: module:attribute or path/to/file.py:attribute.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"The store, else ${variable('url')}, else that of {FILE}, else {DEFAULT_URL}.",
        show_default=False,
    ),
]
App = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="APP", help="Use the store of this application.", show_default=False
    ),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Go on by itself after this, such as 30m."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class Where(msgspec.Struct, frozen=True):
    url: str | None
    app: str | None

    def __repr__(self) -> str:
        return f"Where({self.url and without_secrets(self.url)!r}, {self.app!r})"

    def yard(self) -> Yard:
        if self.app is not None and self.url is not None:
            raise InvalidOption("give either --url or --app, not both")
        if self.app is not None:
            return load_yard(self.app)
        loaded = load({} if self.url is None else {"url": ("--url", self.url)})
        return Yard(loaded.settings.url, retention=loaded.retention)


def ask(where: Where, question: Callable[[Yard], Awaitable[T]]) -> T:
    """Open the yard, ask, close it. A yard that is not there is not made."""
    return ask_yard(where.yard(), question)


def ask_yard(yard: Yard, question: Callable[[Yard], Awaitable[T]]) -> T:
    return asyncio.run(_ask(yard, question))


async def _ask(yard: Yard, question: Callable[[Yard], Awaitable[T]]) -> T:
    if not await yard.exists():
        raise NoYard(
            f"there is no yard at {without_secrets(yard.url)} "
            "(use --url URL or --app APP to name another)"
        )
    async with yard:
        return await question(yard)


def actor() -> str:
    """Who is told to have done it."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"  # a container may run as a number without a name
