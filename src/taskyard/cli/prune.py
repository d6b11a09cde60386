"""`taskyard prune`: removes what has been kept long enough, now."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.machine import print_json
from taskyard.cli.render import progress_bars, show
from taskyard.cli.target import Json, Where, actor, ask, located
from taskyard.domain.errors import InvalidOption
from taskyard.domain.retention import Pruned
from taskyard.settings import read_age


@located
def prune(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many tasks would go.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="All ended tasks of this age, such as 12h or 30d, instead of what APP keeps.",
        ),
    ] = None,
    where: Where,
    as_json: Json = False,
) -> None:
    """Remove ended tasks that have been kept long enough.

    Workers do it daily by themselves. How long tasks are kept is said by the application.
    """
    if where.app is None and where.server is None and older_than is None:
        raise InvalidOption(
            "how long tasks are kept is said by the application: name it with --app APP, "
            "or give --older-than AGE"
        )
    age = None if older_than is None else read_age(older_than)

    async def run(yard: Desk) -> Pruned:
        if dry_run:
            return await yard.prune(dry_run=True, older_than=age)
        with progress_bars() as bar:
            total = None
            if not bar.disable:
                total = (await yard.prune(dry_run=True, older_than=age)).tasks
            shown = bar.add_task("prune", total=total)
            return await yard.prune(
                older_than=age,
                actor=actor(),
                told=lambda count: bar.update(shown, completed=count),
            )

    pruned = ask(where, run)
    if as_json:
        print_json({"dry_run": dry_run, "tasks": pruned.tasks, "audit": pruned.audit})
    else:
        show(Text(_told(pruned, dry_run=dry_run)))


def _told(pruned: Pruned, *, dry_run: bool) -> str:
    tasks = f"{pruned.tasks} task{'' if pruned.tasks == 1 else 's'}"
    if dry_run:
        return f"would remove {tasks}"
    lines = f" and {pruned.audit} line{'' if pruned.audit == 1 else 's'} of the audit trail"
    return f"removed {tasks}{lines if pruned.audit else ''}"
