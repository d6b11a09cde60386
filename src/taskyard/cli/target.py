"""Which yard a command means: an application's, the one at a URL, or that of a server."""

from __future__ import annotations

import asyncio
import functools
import getpass
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from taskyard.cli.application import load_yard
from taskyard.cli.desk import Desk
from taskyard.cli.errors import NoYard
from taskyard.domain.errors import InvalidOption
from taskyard.settings import DEFAULT_URL, FILE, TOKEN_VARIABLE, load, variable
from taskyard.store.passwords import without_secrets
from taskyard.yard import Yard

if TYPE_CHECKING:
    from taskyard.cli.remote import RemoteYard

T = TypeVar("T")
D = TypeVar("D", bound=Desk)

AppArgument = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="The yard: module:attribute or path/to/file.py:attribute; not with --server.",
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
Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="Ask this server instead of a store.", show_default=False
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help=f"With --server: the token is here, else in ${TOKEN_VARIABLE}.",
        show_default=False,
    ),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Go on by itself after this, such as 30m."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class Where(msgspec.Struct, frozen=True):
    url: str | None = None
    app: str | None = None
    server: str | None = None
    token_file: str | None = None

    def __repr__(self) -> str:
        said = {
            "url": self.url and without_secrets(self.url),
            "app": self.app,
            "server": self.server and without_secrets(self.server),
            "token_file": self.token_file,
        }
        told = ", ".join(f"{name}={value!r}" for name, value in said.items() if value is not None)
        return f"Where({told})"

    def yard(self) -> Desk:
        return self.local() if self.server is None else self._remote()

    def local(self, why: str = "") -> Yard:
        """One that this process opens itself; `why` a server would not do."""
        if self.server is not None:
            raise InvalidOption(f"{why}, so --server does not go with it: give --url or --app")
        if self.token_file is not None:
            raise InvalidOption("--token-file goes with --server")
        if self.app is not None and self.url is not None:
            raise InvalidOption("give either --url or --app, not both")
        if self.app is not None:
            return load_yard(self.app)
        loaded = load({} if self.url is None else {"url": ("--url", self.url)})
        return Yard(loaded.settings.url, retention=loaded.retention)

    def _remote(self) -> Desk:
        assert self.server is not None
        if self.app is not None or self.url is not None:
            raise InvalidOption("give only one of --server, --url and --app")
        return remote(self.server, self.token_file)


def remote(server: str, token_file: str | None) -> RemoteYard:
    from taskyard.cli.remote import remote_yard  # noqa: PLC0415 - few need HTTP, which is slow

    return remote_yard(server, token_file)


def located(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command that takes `where` the options that say it."""

    def options(
        url: Url = None, app: App = None, server: Server = None, token_file: TokenFile = None
    ) -> Where:
        return Where(url, app, server, token_file)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        said = {name: given.pop(name) for name in asked}
        command(**given, where=options(**said))

    own = inspect.signature(command, eval_str=True)
    asked = inspect.signature(options, eval_str=True).parameters
    named = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        parameter.replace(kind=named)
        for each in own.parameters.values()
        for parameter in (asked.values() if each.name == "where" else [each])
    ]
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def ask(where: Where, question: Callable[[Desk], Awaitable[T]]) -> T:
    """Open the yard, ask, close it. A yard that is not there is not made."""
    return ask_yard(where.yard(), question)


def ask_yard(yard: D, question: Callable[[D], Awaitable[T]]) -> T:
    return asyncio.run(_ask(yard, question))


async def _ask(yard: D, question: Callable[[D], Awaitable[T]]) -> T:
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
