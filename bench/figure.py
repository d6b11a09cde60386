"""What a bench measures, and where it does so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import RenderableType
from rich.progress import Progress


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the closing table. Without `at_most` or `at_least` it is reported only."""

    name: str
    value: float
    unit: str = "x"
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""

    @property
    def held(self) -> bool:
        high = self.at_most is not None and self.value > self.at_most
        low = self.at_least is not None and self.value < self.at_least
        return not (high or low)

    @property
    def amount(self) -> str:
        return amount(self.value, self.unit)

    @property
    def bound(self) -> str | None:
        if self.at_most is not None:
            return f"≤ {amount(self.at_most, self.unit)}"
        if self.at_least is not None:
            return f"≥ {amount(self.at_least, self.unit)}"
        return None


def amount(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What one may choose; a bench heeds those that concern it."""

    store: str = "sqlite"
    sizes: tuple[int, int] = (1_000, 1_000_000)  # the two backlogs of claim_scaling
    scenes: tuple[str, ...] | None = None  # parts of their names; all unless named
    seconds: float = 60.0  # how long held_snapshot holds it
    load: str | None = None  # of held_snapshot; both unless chosen
    rate: int = 2_000  # of held_snapshot's steady load, tasks a second
    keyed: bool = False  # held_snapshot: a thousand keys
    lane_capacity: int | None = None  # held_snapshot: tasks running at once
    finished: int = 1_000_000  # tasks that prune_under_flow prunes
    flow: int = 1_000  # tasks a second that flow meanwhile
    listed: int = 1_000_000  # tasks that dashboard pages through
    peers: tuple[str, ...] | None = None  # of speed; all unless chosen
    measures: tuple[str, ...] | None = None  # of speed; all unless chosen
    rounds: int = 10  # of speed, at most, and of api
    minutes: float = math.inf  # speed begins no round that would end later
    each: float = 2.0  # seconds a run of speed or api is to last
    tasks: int | None = None  # in a run of speed; as many as fit unless chosen


class Stage:
    """A folder for the bench's files, what was chosen, and a way to say how far it has come."""

    def __init__(self, folder: Path, progress: Progress, options: Options) -> None:
        self.folder = folder
        self.options = options
        self._progress = progress

    @contextmanager
    def steps(self, what: str, total: float) -> Iterator[Callable[[float], None]]:
        """Shows a bar while inside; call what it gives with each advance."""
        task = self._progress.add_task(what, total=total)
        try:
            yield lambda amount: self._progress.advance(task, amount)
        finally:
            self._progress.remove_task(task)

    def show(self, what: RenderableType) -> None:
        """Above the bars."""
        self._progress.console.print(what)

    def clear(self) -> None:
        """A million tasks are half a gigabyte: nobody needs them after their scene."""
        for path in self.folder.iterdir():
            path.unlink()


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent do not exceed."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def spread(values: Sequence[float]) -> str:
    """The middle half, so that a reader sees the noise."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:,.0f} to {high:,.0f}"
