"""How things look: calm tables, colours by state, relative times; plain when not in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from taskyard.cli.text import clean, one_line
from taskyard.domain.clock import Instant, as_datetime, seconds
from taskyard.domain.node import NodeState
from taskyard.domain.state import State

STATE_STYLES: dict[str, str] = {
    State.PENDING: "cyan",
    State.QUEUED: "yellow",
    State.RUNNING: "bold blue",
    State.COMPLETED: "green",
    State.FAILED: "bold red",
    State.CANCELLED: "magenta",
    State.PAUSED: "magenta",
    NodeState.READY: "green",
    NodeState.DRAINING: "yellow",
    NodeState.DOWN: "red",
}

_ENDLESS = 10_000
_SIZES = ("B", "kB", "MB", "GB", "TB")


def console() -> Console:
    screen = Console(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _ENDLESS  # a pipe has no edge: nothing is cut off
    return screen


def show(*parts: RenderableType) -> None:
    """Print, one below the other. Text is never broken by us; a terminal folds it itself."""
    screen = console()
    with screen.capture() as captured:
        for part in parts:
            screen.print(part, soft_wrap=isinstance(part, Text))
    shown = captured.get()
    if not screen.is_terminal:
        shown = "".join(f"{line.rstrip()}\n" for line in shown.splitlines())
    sys.stdout.write(shown)
    sys.stdout.flush()


def progress_bars() -> Progress:
    """On stderr, and only for people."""
    screen = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    return Progress(*columns, TimeRemainingColumn(), console=screen, disable=not screen.is_terminal)


# --- pieces ---


def cell(text: object, style: str = "") -> Text:
    """One line of a table; cut with … if there is no room."""
    return Text(one_line(str(text)), style=style, no_wrap=True, overflow="ellipsis")


def number(value: int | None) -> Text:
    """A nought or nothing steps back, so that what matters is seen."""
    return cell("-" if value is None else f"{value:,}", "" if value else "dim")


def state_cell(state: State | NodeState) -> Text:
    return cell(state, STATE_STYLES.get(state, ""))


def table(*columns: Column, rows: Iterable[Sequence[Text]]) -> Table:
    """Columns without a header are left out where they are empty."""
    filled = list(rows)
    kept = [
        at for at, column in enumerate(columns) if column.header or any(row[at] for row in filled)
    ]
    made = Table(
        *(columns[at] for at in kept),
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        show_header=any(column.header for column in columns),
    )
    for row in filled:
        made.add_row(*(row[at] for at in kept))
    return made


def fixed(header: str = "") -> Column:
    """A column that keeps its width as long as any other can give way."""
    return Column(header, no_wrap=True, overflow="ellipsis")


def right(header: str) -> Column:
    return Column(header, no_wrap=True, justify="right")


def fields(pairs: Iterable[tuple[str, RenderableType | None]]) -> Padding:
    """Names and values, one a line; what has no value is left out."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            grid.add_row(name, Text(clean(value)) if isinstance(value, str) else value)
    return indented(grid)


def indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2), expand=False)


def block(text: str, style: str = "") -> Text:
    """Lines of their own, as they came: a stack, a payload."""
    lines = clean(text).rstrip("\n").split("\n")
    return Text("\n".join(f"  {line}" for line in lines), style=style)


def heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


# --- times ---


def duration(length: float) -> str:
    """Two figures at most: 40 ms, 2.5 s, 12 s, 3 min 5 s, 2 h 4 min, 5 d 3 h."""
    if length < 1:
        return f"{max(length, 0.0) * 1000:.0f} ms"
    if length < 10:
        return f"{length:.1f} s"
    whole = round(length)
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return _two(whole // size, unit, whole % size // small, below)
    return _two(whole // 60, "min", whole % 60, "s") if whole >= 60 else f"{whole} s"


def _two(many: int, unit: str, few: int, below: str) -> str:
    return f"{many} {unit} {few} {below}" if few else f"{many} {unit}"


def size(count: int) -> str:
    """Three figures: 999 B, 45.2 MB."""
    step = 0
    while count >= 1000 ** (step + 1) and step < len(_SIZES) - 1:
        step += 1
    return f"{count / 1000**step:.3g} {_SIZES[step]}"


def relative(at: Instant, now: Instant) -> str:
    """One figure: 3 s ago, in 2 min."""
    gap = abs(seconds(now - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if gap >= size:
            return _told(int(gap // size), unit, at > now)
    return _told(int(gap), "s", at > now) if gap >= 1 else "now"


def _told(many: int, unit: str, future: bool) -> str:
    return f"in {many} {unit}" if future else f"{many} {unit} ago"


def moment(at: Instant) -> str:
    return as_datetime(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
