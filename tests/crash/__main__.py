"""`python -m tests.crash --store sqlite --kills 200`: kill workers at random, check what holds."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from tests.crash.places import PLACES
from tests.crash.run import Outcome, Plan, Progress, Run

STORES = tuple(PLACES)
SHOWN = 10  # violations of each invariant


def main() -> int:
    options = _options()
    console = Console()
    if options.store not in STORES:
        console.print(
            f"The crash run does not know the store {options.store!r}; "
            f"it can try: {', '.join(STORES)}."
        )
        return 2
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    console.print(f"seed {seed} (repeat with ARGS='--seed {seed}')")
    plan = Plan(
        kills=options.kills,
        seed=seed,
        store=options.store,
        server_kills=options.server_kills,
        frozen=options.frozen,
        minutes=options.minutes,
    )
    folder = Path(tempfile.mkdtemp(prefix="taskyard-crash-"))
    outcome = _run(plan, folder, console)
    broken = _report(outcome, console)
    if broken:
        console.print(f"[bold red]seed {seed}; what happened is kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument(
        "--server-kills", type=int, default=3, help="of the store's server, where there is one"
    )
    parser.add_argument(
        "--frozen", type=float, default=0.05, help="share of workers stopped instead of killed"
    )
    parser.add_argument("--minutes", type=float, help="go on at least so long")
    return parser.parse_args()


def _run(plan: Plan, folder: Path, console: Console) -> Outcome:
    columns = (
        TextColumn("kills"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=console) as bar:
        shown = bar.add_task("starting", total=plan.kills)

        def tell(progress: Progress) -> None:
            bar.update(shown, completed=min(progress.kills, plan.kills), description=progress.text)

        return asyncio.run(Run(plan, folder, tell).run())


def _report(outcome: Outcome, console: Console) -> bool:
    table = Table("", "invariant", "checked", "violations", title="What must hold")
    for found in outcome.findings:
        count = len(found.violations)
        style = "bold red" if count else "green"
        table.add_row(
            found.letter, found.title, f"{found.checked:,}", f"[{style}]{count}", end_section=False
        )
    console.print(table)
    for found in outcome.findings:
        for text in found.violations[:SHOWN]:
            console.print(f"[red]{found.letter}[/] {text}")
    console.print(
        f"{outcome.kills:,} kills ({outcome.server_kills} more of the server), "
        f"{outcome.freezes:,} freezes and {outcome.tasks:,} tasks "
        f"in {outcome.seconds:.0f} s, "
        f"drained in {outcome.drained_in:.1f} s"
    )
    console.print("tasks:   " + _counted(outcome.states))
    console.print("workers: " + _counted(outcome.exits))
    return any(found.violations for found in outcome.findings)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
