"""What a bench measures, and where it does so."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.progress import Progress


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the closing table. Without `at_most` it is reported only."""

    name: str
    value: float
    unit: str = "x"
    at_most: float | None = None
    detail: str = ""

    @property
    def held(self) -> bool:
        return self.at_most is None or self.value <= self.at_most


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What one may choose; a bench heeds those that concern it."""

    store: str = "sqlite"
    sizes: tuple[int, int] = (1_000, 1_000_000)  # the two backlogs of claim_scaling
    seconds: float = 60.0  # how long held_snapshot holds it
    load: str | None = None  # of held_snapshot; both unless chosen
    rate: int = 2_000  # of held_snapshot's steady load, tasks a second
    keyed: bool = False  # held_snapshot: a thousand keys
    lane_capacity: int | None = None  # held_snapshot: tasks running at once
    finished: int = 1_000_000  # tasks that prune_under_flow prunes
    flow: int = 1_000  # tasks a second that flow meanwhile


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
