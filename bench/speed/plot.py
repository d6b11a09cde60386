"""bench/results/latest.png: everybody's figures side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from bench.speed.results import STORES, Latest, StoreResult
from bench.speed.sides import NAMES, Measure, Role

SHOWN = (Measure.PROCESS, Measure.AT_ONCE, Measure.BULK, Measure.IDLE)
FOOT = """Medians of the rounds. Long bars are good for tasks/s, short ones for ms.
* has no such way and goes the next best.
Bare store: the same contract without an engine."""
COLOURS = {Role.OWN: "#1b7f5c", Role.PEER: "#9aa5b1", Role.LIMIT: "#dfe3e8"}

mpl.use("Agg")


def draw(latest: Latest, path: Path) -> None:
    """A column for each store, a row for each measure; all bars are equally thick."""
    results = latest.in_order
    shown = [measure for measure in SHOWN if any(found(result, measure) for result in results)]
    if not shown:
        return
    heights = [max(len(found(result, measure)) for result in results) + 1.2 for measure in shown]
    size = (4.4 * len(results), 0.23 * sum(heights) + 0.5)
    drawing = Drawing(figsize=size, layout="constrained", dpi=120)
    axes = drawing.subplots(len(shown), len(results), squeeze=False, height_ratios=heights)
    for column, result in enumerate(results):
        for row, measure in enumerate(shown):
            bars(axes[row][column], measure, found(result, measure), heights[row] - 1.2)
        title = f"{STORES[result.store]}\n\n{title_of(shown[0])}"
        axes[0][column].set_title(title, fontsize=9, loc="left", fontweight="bold")
    drawing.supxlabel(FOOT, fontsize=7.5, x=0.01, ha="left")
    drawing.savefig(path, metadata={"Software": None})


def title_of(measure: Measure) -> str:
    return NAMES[measure] + (", p50, ms" if measure.is_idle else ", tasks/s")


def found(result: StoreResult, measure: Measure) -> list[tuple[str, Role, float]]:
    """The best first; a star for a side that has no such way and goes the next best."""
    rows = []
    for side in result.sides:
        way = side.way(measure)
        value = None if way is None else side.typical(way)
        if value is not None:
            star = "" if way is measure else " *"
            name = "Taskyard" if side.role is Role.OWN else side.name
            rows.append((name + star, side.role, value))
    return sorted(rows, key=lambda row: row[2], reverse=not measure.is_idle)


def bars(
    axes: Axes, measure: Measure, rows: Sequence[tuple[str, Role, float]], most: float
) -> None:
    """From above; room for `most` of them."""
    values = [value for _, _, value in rows]
    places = range(len(rows))
    drawn = axes.barh(places, values, color=[COLOURS[role] for _, role, _ in rows], height=0.8)
    texts = [f" {value:.2f}" if measure.is_idle else f" {value:,.0f}" for value in values]
    axes.bar_label(drawn, texts, fontsize=7.5)
    axes.set_title(title_of(measure), fontsize=9, loc="left", fontweight="bold")
    axes.set_xlim(0, 1.25 * max(values, default=1))
    axes.set_ylim(most - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks(places, [name for name, _, _ in rows], fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
