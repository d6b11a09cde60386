"""`taskyard top`: the yard live, on the whole screen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Column
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.keys import key_table
from taskyard.cli.render import (
    STATE_STYLES,
    cell,
    console,
    duration,
    fixed,
    heading,
    indented,
    moment,
    number,
    relative,
    right,
    table,
)
from taskyard.cli.target import Where, ask, located
from taskyard.cli.workers import worker_table
from taskyard.domain.clock import Instant, seconds
from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import Key, Lane
from taskyard.domain.node import Node
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.passwords import without_secrets

BAR = 20
MOST_RUNNING, MOST_FAILED, MOST_KEYS = 12, 5, 5
KEPT = 40  # looks, for the line of what was done
SPARKS = "▁▂▃▄▅▆▇█"


class Look(msgspec.Struct, frozen=True):
    """The yard at one moment."""

    url: str
    now: Instant
    at: float
    counts: Mapping[State, int]
    lanes: list[Lane]
    nodes: list[Node]
    keys: list[Key]
    running: list[Task]
    failed: list[Task]


@located
def top(
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to look.", min=0.2)
    ] = 1.0,
    *,
    where: Where,
) -> None:
    """Watch the yard live, on the whole screen; q leaves."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidOption("top needs a terminal; in a pipe use: taskyard stats")

    async def watch(yard: Desk) -> None:
        await _watch(yard, every)

    ask(where, watch)


async def _watch(yard: Desk, every: float) -> None:
    screen = console()
    speeds: list[float] = []
    before: Look | None = None
    with _keyboard() as pressed, Live(console=screen, auto_refresh=False, screen=True) as live:
        async for _ in _ticks(every, pressed):
            seen = await look(yard)
            if before is not None:
                speeds = [*speeds, speed(before, seen)][-KEPT:]
            before = seen
            live.update(Group(*page(seen, speeds)), refresh=True)


async def _ticks(every: float, pressed: asyncio.Queue[str]) -> AsyncIterator[None]:
    """Until q is pressed; any other key looks at once."""
    while True:
        yield
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every):
                if await pressed.get() in ("q", "Q", "\x1b", "\x03", "\x04"):
                    return


@contextlib.contextmanager
def _keyboard() -> Iterator[asyncio.Queue[str]]:
    """What is typed, key by key and unseen."""
    pressed: asyncio.Queue[str] = asyncio.Queue()
    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, lambda: pressed.put_nowait(os.read(number, 1).decode(errors="replace")))
    try:
        yield pressed
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


async def look(yard: Desk) -> Look:
    running = await yard.find(TaskQuery(state=State.RUNNING, limit=100))
    return Look(
        url=without_secrets(yard.url),
        now=await yard.store.now(),
        at=time.monotonic(),
        counts=await yard.counts(),
        lanes=await yard.lanes(),
        nodes=await yard.nodes(),
        keys=[key for key in await yard.keys(MOST_KEYS) if key.waiting],
        running=sorted(running, key=lambda task: task.started_at or 0)[:MOST_RUNNING],
        failed=await yard.find(TaskQuery(state=State.FAILED, limit=MOST_FAILED)),
    )


def speed(before: Look, seen: Look) -> float:
    """Tasks ended in a second; what is pruned meanwhile does not count against it."""
    ended = [sum(each.counts.get(state, 0) for state in _ENDED) for each in (before, seen)]
    return max(0, ended[1] - ended[0]) / max(seen.at - before.at, 0.001)


_ENDED = (State.COMPLETED, State.FAILED, State.CANCELLED)


def page(seen: Look, speeds: Sequence[float]) -> Iterator[RenderableType]:
    yield _head(seen, speeds)
    yield heading("Lanes")
    yield indented(_lanes(seen.lanes) if seen.lanes else Text("none", "dim"))
    yield heading("Workers")
    yield indented(worker_table(seen.nodes, seen.now) if seen.nodes else Text("none", "red"))
    if seen.running:
        yield heading("Running longest")
        yield indented(_running(seen))
    if seen.keys:
        yield heading("Keys most waited for")
        yield indented(key_table(seen.keys))
    if seen.failed:
        yield heading("Failed last")
        yield indented(_failed(seen))


def _head(seen: Look, speeds: Sequence[float]) -> Text:
    now = speeds[-1] if speeds else 0.0
    parts: list[tuple[str, str] | str] = [
        ("taskyard ", "bold"),
        (f"{seen.url}  ", "dim"),
        (moment(seen.now), "dim"),
        ("   q leaves\n\n", "dim"),
    ]
    for state, count in seen.counts.items():
        parts += [(f"{state} ", "dim"), (f"{count:,}   ", STATE_STYLES[state] if count else "dim")]
    parts += ["\n", ("ended ", "dim"), (f"{now:,.1f}/s  ", "bold"), (sparks(speeds), "green")]
    return Text.assemble(*parts)


def sparks(values: Sequence[float]) -> str:
    """A small curve of the last values."""
    most = max(values, default=0.0)
    if most <= 0:
        return SPARKS[0] * len(values)
    steps = len(SPARKS) - 1
    return "".join(SPARKS[round(value / most * steps)] for value in values)


def bar(share: float, style: str) -> Text:
    filled = round(min(max(share, 0.0), 1.0) * BAR)
    return Text.assemble(("━" * filled, style), ("━" * (BAR - filled), "bright_black"))


def _lanes(lanes: Sequence[Lane]) -> RenderableType:
    most = max((lane.queued for lane in lanes), default=0) or 1
    return table(
        fixed("lane"),
        right("running"),
        right("capacity"),
        right("queued"),
        fixed("how much waits"),
        right("pending"),
        Column(""),
        rows=[
            (
                cell(lane.name),
                cell(lane.running, "bold blue" if lane.running else "dim"),
                number(lane.capacity),
                number(lane.queued),
                bar(lane.queued / most, "yellow"),
                number(lane.pending),
                cell("paused" if lane.paused else "", "magenta"),
            )
            for lane in lanes
        ],
    )


def _running(seen: Look) -> RenderableType:
    return table(
        fixed("task"),
        fixed("kind"),
        fixed("lane"),
        right("for"),
        right("attempt"),
        fixed("progress"),
        Column(""),
        rows=[
            (
                cell(task.id),
                cell(task.kind),
                cell(task.lane, "dim"),
                cell(duration(seconds(seen.now - (task.started_at or seen.now)))),
                number(task.attempt),
                _progress(task),
                cell("asked to stop" if task.asked else "", "magenta"),
            )
            for task in seen.running
        ],
    )


def _progress(task: Task) -> Text:
    said = task.progress
    if said is None:
        return cell("")
    if not said.total:
        return cell(f"{said.done:g}", "blue")
    return bar(said.done / said.total, "blue")


def _failed(seen: Look) -> RenderableType:
    return table(
        fixed("task"),
        fixed("kind"),
        fixed("when"),
        Column("why"),
        rows=[
            (
                cell(task.id),
                cell(task.kind),
                cell(relative(task.ended_at or task.created_at, seen.now), "dim"),
                cell(
                    f"{task.error.type}: {task.error.message}" if task.error else task.reason, "red"
                ),
            )
            for task in seen.failed
        ],
    )
