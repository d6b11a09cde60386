"""`taskyard workers`: who runs tasks, and how they fare."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.machine import plain, print_json
from taskyard.cli.render import (
    cell,
    fixed,
    number,
    relative,
    right,
    show,
    size,
    state_cell,
    table,
)
from taskyard.cli.target import Json, Where, ask, located
from taskyard.domain.clock import Instant
from taskyard.domain.node import Node


@located
def workers(where: Where, as_json: Json = False) -> None:
    """Who runs tasks: slots, kinds, and what each worker uses."""

    async def look(yard: Desk) -> tuple[list[Node], Instant]:
        return await yard.nodes(), await yard.store.now()

    nodes, now = ask(where, look)
    if as_json:
        print_json([plain(node) for node in nodes])
    else:
        show(worker_table(nodes, now) if nodes else Text("no workers"))


def worker_table(nodes: Sequence[Node], now: Instant) -> RenderableType:
    return table(
        fixed("worker"),
        fixed("state"),
        right("running"),
        right("slots"),
        right("cpu"),
        right("memory"),
        fixed("seen"),
        Column("kinds"),
        Column(""),
        rows=[
            (
                cell(node.id),
                state_cell(node.state) if node.lease_left > 0 else cell("silent", "red"),
                number(node.running),
                number(node.slots),
                cell("-", "dim") if node.usage is None else cell(f"{node.usage.cpu:.0%}"),
                cell("-", "dim") if node.usage is None else cell(size(node.usage.memory)),
                cell(relative(node.seen_at, now), "dim"),
                cell(", ".join(node.kinds), "dim"),
                cell(", ".join(node.capabilities), "cyan"),
            )
            for node in nodes
        ],
    )
