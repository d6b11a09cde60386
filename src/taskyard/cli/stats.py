"""`taskyard stats`: the yard at a glance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.keys import key_table
from taskyard.cli.lanes import lane_table
from taskyard.cli.machine import iso, plain, print_json
from taskyard.cli.render import (
    STATE_STYLES,
    cell,
    console,
    duration,
    heading,
    indented,
    number,
    right,
    show,
    table,
)
from taskyard.cli.target import Json, Where, ask, located
from taskyard.cli.workers import worker_table
from taskyard.domain.clock import Instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import Key, Lane
from taskyard.domain.node import Node
from taskyard.domain.state import State
from taskyard.domain.statistics import KindStatistics, Times

MOST_KEYS = 10
MOSTLY = 0.9
EVERY = 1.0


class Snapshot(msgspec.Struct, frozen=True):
    now: Instant
    paused: bool
    counts: Mapping[State, int]
    lanes: list[Lane]
    nodes: list[Node]
    keys: list[Key]
    kinds: list[KindStatistics]


@located
def stats(
    watch: Annotated[bool, typer.Option("--watch", help="Again every second.")] = False,
    *,
    where: Where,
    as_json: Json = False,
) -> None:
    """The yard at a glance.

    Tasks by state, lanes, workers, and the keys most waited for.
    """
    if watch and as_json:
        raise InvalidOption("--watch is for people: leave --json out")
    if watch:
        ask(where, _watch)
    elif as_json:
        print_json(_data(ask(where, _look)))
    else:
        show(*_page(ask(where, _look)))


async def _look(yard: Desk) -> Snapshot:
    return Snapshot(
        now=await yard.store.now(),
        paused=await yard.is_paused(),
        counts=await yard.counts(),
        lanes=await yard.lanes(),
        nodes=await yard.nodes(),
        keys=await yard.keys(MOST_KEYS),
        kinds=await yard.statistics(),
    )


async def _watch(yard: Desk) -> None:
    screen = console()
    if not screen.is_terminal:
        while True:
            show(*_page(await _look(yard)), Text())
            await asyncio.sleep(EVERY)
    first = Group(*_page(await _look(yard)))
    with Live(first, console=screen, auto_refresh=False, screen=True) as live:
        while True:
            await asyncio.sleep(EVERY)
            live.update(Group(*_page(await _look(yard))), refresh=True)


def _data(seen: Snapshot) -> dict[str, Any]:
    return {
        "at": iso(seen.now),
        "paused": seen.paused,
        "counts": {str(state): count for state, count in seen.counts.items()},
        "lanes": [plain(lane) for lane in seen.lanes],
        "workers": [plain(node) for node in seen.nodes],
        "keys": [plain(key) for key in seen.keys],
        "kinds": [{**plain(kind), "success": kind.success} for kind in seen.kinds],
    }


def _page(seen: Snapshot) -> Iterator[RenderableType]:
    if seen.paused:
        yield Text("the yard is paused: nothing new starts (taskyard resume)\n", "magenta")
    yield Text("Tasks", style="bold")
    yield indented(_counts(seen.counts))
    yield heading("Lanes")
    yield indented(lane_table(seen.lanes) if seen.lanes else Text("none", "dim"))
    yield heading("Workers")
    yield indented(worker_table(seen.nodes, seen.now) if seen.nodes else Text("none", "dim"))
    if seen.keys:
        yield heading("Keys")
        yield indented(key_table(seen.keys))
    if seen.kinds:
        yield heading("Kinds, for a day")
        yield indented(_kinds(seen.kinds))


def _counts(counts: Mapping[State, int]) -> RenderableType:
    columns = [right(str(state)) for state in counts]
    row = [
        cell(f"{count:,}", STATE_STYLES[state] if count else "dim")
        for state, count in counts.items()
    ]
    return table(*columns, rows=[row])


def _kinds(kinds: Sequence[KindStatistics]) -> RenderableType:
    return table(
        Column("kind"),
        right("attempts"),
        right("success"),
        right("run p50"),
        right("p95"),
        right("p99"),
        right("wait p50"),
        right("p95"),
        rows=[
            (
                cell(kind.kind),
                number(kind.attempts),
                _share(kind.success),
                *(_time(kind.run, share) for share in ("p50", "p95", "p99")),
                *(_time(kind.wait, share) for share in ("p50", "p95")),
            )
            for kind in kinds
        ],
    )


def _share(success: float | None) -> Text:
    if success is None:
        return cell("-", "dim")
    return cell(f"{success:.1%}", "red" if success < MOSTLY else "")


def _time(times: Times, share: str) -> Text:
    return cell(duration(getattr(times, share))) if times.count else cell("-", "dim")
