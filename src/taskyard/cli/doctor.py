"""`taskyard doctor`: is the store safe and fit?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.table import Column
from rich.text import Text

from taskyard.cli.errors import ChecksFailed
from taskyard.cli.machine import plain, print_json
from taskyard.cli.render import cell, fixed, show, table
from taskyard.cli.target import Json, Where, ask_yard, located
from taskyard.cli.text import clean
from taskyard.domain.errors import StoreError
from taskyard.store.port import Check, Schema
from taskyard.yard import Yard


@located
def doctor(where: Where, as_json: Json = False) -> None:
    """Find out whether the store is safe.

    Looks at everything that could make it unsafe or slow; the exit code is 1 if anything does. It
    brings no yard of an older release up to date.
    """
    checks = _checks(where)
    if as_json:
        print_json([plain(check) for check in checks])
    else:
        show(table(fixed(), fixed(), Column(), rows=[_row(check) for check in checks]))
    failed = [check.name for check in checks if not check.ok]
    if failed:
        raise ChecksFailed(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")


def _checks(where: Where) -> Sequence[Check]:
    async def look(yard: Yard) -> Sequence[Check]:
        return await yard.diagnose()

    yard = where.local("doctor looks at the store itself")
    try:
        schema = asyncio.run(yard.schema())
        return _behind(schema) or ask_yard(yard, look)
    except StoreError as error:
        return [Check("store", False, str(error))]


def _behind(schema: Schema) -> list[Check]:
    """Opening the yard would migrate it, and nothing could be told any more."""
    if schema.current or not 0 < schema.version <= schema.newest:
        return []
    found = f"version {schema.version}, newest is {schema.newest}"
    if schema.version == schema.newest:
        found = f"version {schema.version}, with functions of another release"
    text = "the next program of this release migrates it, or `taskyard migrate`; then look again"
    return [Check("schema", False, f"{found}: {text}")]


def _row(check: Check) -> tuple[Text, ...]:
    mark = cell("✓", "green") if check.ok else cell("✗", "bold red")
    return mark, cell(check.name), Text(clean(check.text), style="dim" if check.ok else "")
