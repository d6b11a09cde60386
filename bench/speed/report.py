"""Tells what was measured: tables for the screen, and bench/results/latest.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from bench.speed.ratio import Ratio
from bench.speed.results import STORES, Latest, SideResult, StoreResult
from bench.speed.sides import NAMES, Measure, Role
from bench.speed.targets import figures

SHORT = {
    Measure.PROCESS: "processed",
    Measure.PROCESS_BY_TWO: "by two",
    Measure.ONE: "one",
    Measure.AT_ONCE: "at once",
    Measure.BULK: "bulk",
    Measure.IDLE: "idle p50",
    Measure.KEYED: "keyed",
    Measure.LANE: "lane",
    Measure.IDLE_HERE: "idle here",
}
COMPARED = (
    Measure.PROCESS,
    Measure.PROCESS_BY_TWO,
    Measure.ONE,
    Measure.AT_ONCE,
    Measure.BULK,
    Measure.IDLE,
)
COSTS = {"rss_mb": "worker memory, MB", "cpu_us": "worker CPU, µs/task"}

HEAD = """# Figures of the last runs

Made by `make bench`; how to read it: [bench/README.md](../README.md). A ratio is ours to theirs \
(for pick-up, theirs to ours), the median of the rounds' paired ratios and in brackets its lower \
90 % bound: the third smallest of ten. Absolute figures are medians and belong to this machine at \
that hour.

![Taskyard and its peers](latest.png)
"""


def tables(result: StoreResult) -> list[Table]:
    """What everybody did, and how much better or worse than us."""
    name = STORES[result.store]
    return [
        _rich(f"{name}: tasks a second (median)", *figures_of(result)),
        _rich(f"{name}: times as fast as they", *ratios_of(result)),
        *([_rich(f"{name}: who is ahead of us", *ahead_of(result))]),
    ]


def _rich(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*head, title=title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table


def figures_of(result: StoreResult) -> tuple[list[str], list[list[str]]]:
    head = ["", *(SHORT[measure] for measure in COMPARED), "p99", "MB", "µs/task", "asked/task"]
    rows = []
    for side in result.sides:
        lead = [named(side), *(shown(side, measure) for measure in COMPARED)]
        costs = [
            shown(side, Measure.IDLE, "p99_ms"),
            *(shown(side, Measure.PROCESS, c) for c in COSTS),
        ]
        rows.append([*lead, *costs, asked(side)])
    return head, rows


def named(side: SideResult) -> str:
    return f"{side.name} †" if side.loses else side.name


def shown(side: SideResult, measure: Measure, figure: str | None = None) -> str:
    value = side.typical(measure, figure)
    if value is None:
        return "failed" if measure in side.failed else ""
    if measure.is_idle:
        return f"{value:.2f} ms"
    return f"{value:,.0f}"


def asked(side: SideResult) -> str:
    """Requests of clients, and with them the commands that scripts run inside."""
    if side.asked is None:
        return ""
    inside = f" ({side.asked.commands:.3g})" if side.asked.commands is not None else ""
    return f"{side.asked.requests:.3g}{inside}"


def ratios_of(result: StoreResult) -> tuple[list[str], list[list[str]]]:
    head = ["ours to", *(SHORT[measure] for measure in COMPARED)]
    others = [side for side in result.sides if side.role is not Role.OWN]
    return head, [
        [named(side), *(ratio_text(result, side, measure) for measure in COMPARED)]
        for side in others
    ]


def ratio_text(result: StoreResult, side: SideResult, measure: Measure) -> str:
    ratio = result.against(side, measure)
    if ratio is None:
        return "failed" if measure in side.failed else ""
    star = "" if side.way(measure) is measure else " *"
    return f"{ratio}{star}"


def ahead_of(result: StoreResult) -> tuple[list[str], list[list[str]]]:
    rows = [
        [what, peer.name, f"{1 / ratio.median:.2f}"] for what, peer, ratio in peers_ahead(result)
    ]
    return ["where", "who", "times as good as ours"], rows or [["nowhere", "", ""]]


def peers_ahead(result: StoreResult) -> Iterator[tuple[str, SideResult, Ratio]]:
    """Every figure in which a peer was better than we, by the median of the paired ratios."""
    wanted: list[tuple[str, Measure, str | None]] = [
        *((NAMES[measure], measure, None) for measure in COMPARED),
        ("idle pick-up, p99", Measure.IDLE, "p99_ms"),
        *((name, Measure.PROCESS, figure) for figure, name in COSTS.items()),
    ]
    for what, measure, figure in wanted:
        for peer in result.peers:
            ratio = result.against(peer, measure, figure)
            if ratio is not None and ratio.median < 1:
                yield what, peer, ratio


# --- markdown ---


def markdown(latest: Latest) -> str:
    return "\n".join([HEAD, *(_section(result) for result in latest.in_order)])


def _section(result: StoreResult) -> str:
    machine = result.machine
    about = (
        f"{result.started[:10]}, {result.version}, {machine.cores} cores, Python {machine.python}, "
        f"{result.rounds} rounds; load {machine.load[0]:.1f}, an fsync {machine.sync_ms:.2f} ms; "
        f"commit {result.taskyard}."
    )
    starts = sorted({runs.started for side in result.sides for runs in side.measured.values()})
    if len(starts) > 1:
        about += f" Measured in {len(starts)} runs since {starts[0]}; this is the last."
    ahead = [
        f"- {what}: {peer.name}, {1 / ratio.median:.2f} times as good as ours"
        for what, peer, ratio in peers_ahead(result)
    ]
    failed = [
        f"- {side.name} failed at {NAMES[measure]}: `{' '.join(why.split())[-200:]}`"
        for side in result.sides
        for measure, why in side.failed.items()
    ]
    settings = [f"{named(side)}: {side.settings}" for side in result.sides if side.settings]
    parts = [
        f"## {STORES[result.store]}\n",
        about + "\n",
        "Tasks a second, median:\n",
        _markdown(*figures_of(result)),
        "\nOurs to theirs:\n",
        _markdown(*ratios_of(result)),
        "\nWhat must hold:\n",
        _markdown(*_bounds(result)),
        "\nA peer is ahead of us in:\n",
        "\n".join(ahead or ["- nothing"]) + "\n",
        *(["\n".join(failed) + "\n"] if failed else []),
        "Settings: " + " · ".join(settings) + ". † a kill of the worker loses the tasks it has. "
        "\\* it has no such way and goes the next best.\n",
    ]
    return "\n".join(parts)


def _bounds(result: StoreResult) -> tuple[list[str], list[list[str]]]:
    rows = []
    for figure in figures(result):
        bound = figure.bound
        held = "" if bound is None else "reached" if figure.held else "**not reached**"
        rows.append([figure.name, figure.amount, bound or "", held, figure.detail])
    return ["", "lower bound", "target", "", ""], rows


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
