"""`python -m bench [names…]`: run all benches, or those named; exit 1 if a bound is missed."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import math
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

import apsw
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.figure import Figure, Options, Stage
from bench.ground import STORES
from bench.speed.sides import Measure, read_table

NAMES = (
    "claim_scaling",
    "latency",
    "worker_footprint",
    "speed",
    "held_snapshot",
    "idle_fleet",
    "prune_under_flow",
    "dashboard",
    "api",
)
RESULTS = Path(__file__).parent / "results"


class Bench(Protocol):
    """What a module of this package must have to be one."""

    SPEC: tuple[str, ...]  # the statements of docs/spec it shows
    BOUND: str  # what must hold, in words

    async def measure(self, stage: Stage) -> list[Figure]: ...


def main(argv: Sequence[str] | None = None) -> int:
    chosen = options(argv)
    console = Console()
    console.width = console.width if console.is_terminal else 120
    heeded = Options(
        sizes=chosen.sizes,
        scenes=chosen.scenes,
        seconds=chosen.seconds,
        load=chosen.load,
        rate=chosen.rate,
        keyed=chosen.keyed,
        lane_capacity=chosen.lane_capacity,
        finished=chosen.finished,
        flow=chosen.flow,
        listed=chosen.listed,
        peers=chosen.peers,
        measures=chosen.measures,
        rounds=chosen.rounds,
        minutes=chosen.minutes,
        each=chosen.each,
        tasks=chosen.tasks,
    )
    missed = [
        f"{name} ({store})"
        for name in chosen.names
        for store in stores_of(name, chosen.store)
        if not run(name, chosen.folder, msgspec.structs.replace(heeded, store=store), console)
    ]
    if missed:
        console.print(f"[bold red]bounds missed in: {', '.join(missed)}")
    return 1 if missed else 0


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; all unless named")
    parser.add_argument(
        "--folder", type=Path, help="where databases are made; on a real disk, for fsync to count"
    )
    parser.add_argument(
        "--store",
        choices=STORES,
        help="unless chosen, speed is run on all and the others on SQLite",
    )
    scaling = parser.add_argument_group("claim_scaling")
    scaling.add_argument(
        "--sizes", type=two_sizes, default=(1_000, 1_000_000), help="the two backlogs: 1000,100000"
    )
    scaling.add_argument(
        "--scenes", type=listed, help="only those with these words in their names: fair,rate"
    )
    held = parser.add_argument_group("held_snapshot")
    held.add_argument("--seconds", type=float, default=60.0, help="how long it is held")
    held.add_argument("--load", choices=("steady", "flood"), help="both unless chosen")
    held.add_argument("--rate", type=int, default=2_000, help="of the steady load, tasks/s")
    held.add_argument("--keyed", action="store_true", help="tasks hold one of a thousand keys")
    held.add_argument("--lane-capacity", type=int, help="most tasks running at once")
    pruning = parser.add_argument_group("prune_under_flow")
    pruning.add_argument("--finished", type=int, default=1_000_000, help="tasks to prune")
    pruning.add_argument("--flow", type=int, default=1_000, help="tasks/s meanwhile")
    dashboard = parser.add_argument_group("dashboard")
    dashboard.add_argument("--listed", type=int, default=1_000_000, help="tasks in the yard")
    speed = parser.add_argument_group("speed")
    speed.add_argument("--peers", type=listed, help="only these: pgqueuer,awa; or none")
    speed.add_argument(
        "--measures", type=listed, help="only these: process,one,at_once,bulk,idle,…"
    )
    speed.add_argument("--rounds", type=int, default=10, help="of api too")
    speed.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no round that would end later"
    )
    speed.add_argument(
        "--each", type=float, default=2.0, help="seconds a run is to last, of api too"
    )
    speed.add_argument("--tasks", type=int, help="in a run; as many as fit unless chosen")
    chosen = parser.parse_args(argv)
    unknown = set(chosen.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no bench {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    for name in chosen.peers or ():
        if not any(peer.is_called(name) for peer in read_table()):
            parser.error(f"there is no peer {name}; bench/peers/peers.toml has them all")
    for name in chosen.measures or ():
        if name not in list(Measure):
            parser.error(f"there is no measure {name}; known: {', '.join(Measure)}")
    only_speed = chosen.peers is not None or chosen.tasks is not None
    chosen.names = chosen.names or (["speed"] if only_speed else list(NAMES))
    return chosen


def listed(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name not in ("", "none"))


def stores_of(name: str, chosen: str | None) -> Sequence[str]:
    if chosen is not None:
        return (chosen,)
    return STORES if name == "speed" else ("sqlite",)


def two_sizes(text: str) -> tuple[int, int]:
    small, large = map(int, text.split(","))
    return small, large


def run(name: str, parent: Path | None, heeded: Options, console: Console) -> bool:
    """Measure, show and keep; says whether every bound held."""
    bench = cast("Bench", importlib.import_module(f"bench.{name}"))
    store = getattr(bench, "STORE", heeded.store)
    console.rule(f"[bold]{name}[/]  {store}  {', '.join(bench.SPEC)}")
    console.print(bench.BOUND)
    started = datetime.now(UTC)
    with (
        tempfile.TemporaryDirectory(prefix=f"taskyard-{name}-", dir=parent) as folder,
        progress_on(console) as progress,
    ):
        figures = asyncio.run(bench.measure(Stage(Path(folder), progress, heeded)))
    seconds = (datetime.now(UTC) - started).total_seconds()
    console.print(table(figures))
    console.print(f"took {seconds:.0f} s", style="dim")
    keep(name, bench, heeded, figures, started)
    return all(figure.held for figure in figures)


def progress_on(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def table(figures: Sequence[Figure]) -> Table:
    shown = Table("", "what", "measured", "must be", "detail")
    for figure in figures:
        mark = "" if figure.bound is None else "✓" if figure.held else "✗"
        shown.add_row(
            mark,
            figure.name,
            figure.amount,
            figure.bound or "",
            figure.detail,
            style="" if figure.held else "bold red",
        )
    return shown


def keep(
    name: str, bench: Bench, heeded: Options, figures: Sequence[Figure], started: datetime
) -> None:
    RESULTS.mkdir(exist_ok=True)
    result: dict[str, Any] = {
        "bench": name,
        "spec": bench.SPEC,
        "bound": bench.BOUND,
        "options": heeded,
        "held": all(figure.held for figure in figures),
        "started": started.isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "load": os.getloadavg(),  # how much else it had to do
            "system": platform.platform(),
            "python": platform.python_version(),
            "sqlite": apsw.sqlite_lib_version(),
        },
        "figures": figures,
    }
    text = msgspec.json.format(msgspec.json.encode(result), indent=2)
    file = name if heeded.store == "sqlite" else f"{name}-{heeded.store}"
    (RESULTS / f"{file}.json").write_bytes(text + b"\n")


if __name__ == "__main__":
    sys.exit(main())
