"""`taskyard audit`: who did what, and what the system did by itself."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.machine import plain, print_json
from taskyard.cli.render import cell, fixed, moment, right, show, table
from taskyard.cli.target import Json, Where, ask, located
from taskyard.domain.lane import Audited


@located
def audit(
    limit: Annotated[int, typer.Option(metavar="N", help="Most lines to show.", min=1)] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="NO", help="Go on before this line, the last one seen.")
    ] = None,
    *,
    where: Where,
    as_json: Json = False,
) -> None:
    """Who did what to which task, lane or worker, newest first."""

    async def look(yard: Desk) -> list[Audited]:
        return await yard.audit(limit=limit, before=before)

    lines = ask(where, look)
    if as_json:
        print_json([plain(line) for line in lines])
        return
    rows = [
        (
            cell(line.no, "dim"),
            cell(moment(line.at), "dim"),
            cell(line.actor, "dim" if line.actor == "system" else "cyan"),
            cell(line.action, "bold"),
            cell(line.subject),
            cell(line.detail),
        )
        for line in lines
    ]
    headers = (
        right("no"),
        fixed("when"),
        fixed("who"),
        fixed("did"),
        fixed("to"),
        Column("detail"),
    )
    show(table(*headers, rows=rows) if rows else Text("nothing has been done yet"))
