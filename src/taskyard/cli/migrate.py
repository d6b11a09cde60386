"""`taskyard migrate`: brings the schema of a store up to date."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from taskyard.cli.errors import NotCurrent
from taskyard.cli.machine import plain, print_json
from taskyard.cli.render import show
from taskyard.cli.target import Json, Where, located
from taskyard.domain.errors import SchemaMismatch
from taskyard.store.passwords import without_secrets
from taskyard.store.port import Schema
from taskyard.store.url import allowing_migration
from taskyard.yard import Yard


@located
def migrate(
    where: Where,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if there is work.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the schema of the store up to date.

    Makes the yard where there is none. Opening a yard does the same, unless its URL says migrate=0.
    """
    yard = where.local("migrate changes the store itself")
    place = without_secrets(yard.url)
    before = asyncio.run(_brought_up(yard, place, check=check))
    if as_json:
        print_json({**plain(before), "migrated": not before.current})
    else:
        show(Text(_told(before, place)))


async def _brought_up(yard: Yard, place: str, *, check: bool) -> Schema:
    """Do what there is to do; answers what was found."""
    before = await yard.schema()
    _refuse_newer(before, place)
    if check and not before.current:
        raise NotCurrent(_missing(before, place))
    if not before.current:
        async with Yard(allowing_migration(yard.url)):
            return before
    return before


def _refuse_newer(schema: Schema, place: str) -> None:
    if schema.version > schema.newest:
        raise SchemaMismatch(
            f"{place} was made by a newer Taskyard (schema {schema.version}, this one knows "
            f"{schema.newest}); upgrade this one"
        )


def _missing(schema: Schema, place: str) -> str:
    if schema.version == 0:
        return f"there is no yard at {place} yet (this release brings schema {schema.newest})"
    if schema.version < schema.newest:
        return f"{place} has schema {schema.version}, this release brings {schema.newest}"
    return f"{place} has schema {schema.version}, but functions of another release"


def _told(before: Schema, place: str) -> str:
    if before.current:
        return f"nothing to do: {place} is current (schema {before.version})"
    if before.version == 0:
        return f"made the yard at {place} (schema {before.newest})"
    if before.version < before.newest:
        return f"brought {place} from schema {before.version} to {before.newest}"
    return f"replaced the functions at {place} (schema {before.newest})"
