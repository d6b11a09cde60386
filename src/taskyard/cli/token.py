"""`taskyard token`: who may use the server."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from taskyard.cli.group import group
from taskyard.cli.machine import print_json
from taskyard.cli.render import show
from taskyard.cli.serve import Folder, require_extra
from taskyard.cli.target import Json, actor
from taskyard.cli.text import one_line
from taskyard.cli.worker import given
from taskyard.settings import load

if TYPE_CHECKING:
    from taskyard.server.keyring import Issued, Keyring

commands = group("Who may use the server: make tokens, list them, take them back.")


class RoleName(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    NODE = "node"


@commands.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.", show_default=False)],
    *,
    role: Annotated[RoleName, typer.Option(help="What it allows.")] = RoleName.VIEWER,
    days: Annotated[
        float | None,
        typer.Option(metavar="N", help="How long it is good.", show_default="for ever"),
    ] = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it, alone on its line.

    It is not kept: this is the only time it is shown.
    """
    keyring = _keyring(folder)
    from taskyard.server.roles import Role  # noqa: PLC0415 - the extra may be missing

    token, made = keyring.issue(name, Role(role), days=days, by=actor())
    if as_json:
        print_json({**_data(made), "token": token})
    else:
        typer.echo(token)


@commands.command("list")
def list_tokens(folder: Folder = None, as_json: Json = False) -> None:
    """All tokens, without the tokens themselves."""
    found = [_data(one) for one in _keyring(folder).issued()]
    if as_json:
        print_json(found)
    elif found:
        show(*(Text(_line(one)) for one in found))
    else:
        show(Text("no tokens"))


@commands.command()
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="As `list` shows it.", show_default=False)
    ],
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Take a token back.

    Servers that run notice it, and close the connections it was used for.
    """
    gone = _data(_keyring(folder).revoke(token_id, by=actor()))
    if as_json:
        print_json(gone)
    else:
        show(Text(_line(gone)))


def _keyring(folder: str | None) -> Keyring:
    said = load(given({"server.folder": ("--folder", folder)})).settings.server
    require_extra()
    from taskyard.server.keyring import Keyring  # noqa: PLC0415 - the extra may be missing

    return Keyring(Path(said.folder), said.secret)


def _data(one: Issued) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(one)
    for name in ("expires", "made_at", "revoked_at"):
        data[name] = datetime.fromtimestamp(data[name], UTC).isoformat() if data[name] else None
    return data


def _line(one: dict[str, Any]) -> str:
    until = f"until {one['expires']}" if one["expires"] else "for ever"
    state = f"revoked {one['revoked_at']}" if one["revoked_at"] else until
    return f"{one['id']}  {one['role']}  {one_line(one['name'])}  {state}"
