"""`taskyard copy`: takes a yard to another store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated

import typer
from rich.text import Text

from taskyard.cli.errors import NoYard
from taskyard.cli.machine import print_json
from taskyard.cli.render import progress_bars, show
from taskyard.cli.target import Json, actor
from taskyard.domain.state import State
from taskyard.engine.maintenance.rescue import proven_dead
from taskyard.store.copy import copy as copy_store
from taskyard.store.passwords import without_secrets
from taskyard.yard import Yard


def copy(
    from_url: Annotated[
        str, typer.Argument(metavar="FROM_URL", help="The store to copy.", show_default=False)
    ],
    to_url: Annotated[
        str, typer.Argument(metavar="TO_URL", help="An empty one.", show_default=False)
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the workers of the source have gone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take a yard to another store.

    The source is paused first and stays so. An interrupted copy can be made again.
    """
    counts, paused = asyncio.run(_copy(Yard(from_url), Yard(to_url), wait=wait))
    if as_json:
        print_json({state: counts[state] for state in State})
    else:
        show(Text(_told(counts)), Text(f"{without_secrets(from_url)} stays paused"))
        if paused:
            show(Text(f"{without_secrets(to_url)} is paused too, as the source was before"))


async def _copy(source: Yard, target: Yard, *, wait: bool) -> tuple[Mapping[State, int], bool]:
    """Answers how many tasks are in each state of the target, and whether it is paused."""
    if not await source.exists():
        raise NoYard(f"there is no yard at {without_secrets(source.url)}")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(source)
        await stack.enter_async_context(target)
        total = sum((await source.counts()).values())
        bars = stack.enter_context(progress_bars())
        shown = {step: bars.add_task(step, total=total) for step in ("copy", "compare")}
        counts = await copy_store(
            source.store,
            target.store,
            actor=actor(),
            wait=wait,
            proven_dead=proven_dead,
            told=lambda step, count: bars.advance(shown[step], count),
        )
        return counts, await target.is_paused()


def _told(counts: Mapping[State, int]) -> str:
    parts = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    total = sum(counts.values())
    return f"copied {total} task{'' if total == 1 else 's'}{': ' if parts else ''}{parts}"
