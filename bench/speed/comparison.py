"""The whole of it for one store: environments, plans, rounds, results."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from bench.figure import Figure, Stage, median
from bench.speed.places import place
from bench.speed.plot import draw
from bench.speed.report import markdown, tables
from bench.speed.results import RESULTS, Machine, Measured, SideResult, StoreResult, keep
from bench.speed.rounds import Course
from bench.speed.sides import (
    NAMES,
    Measure,
    Peer,
    Role,
    chosen_peers,
    limit,
    make_environment,
    ourselves,
    read_table,
)
from bench.speed.targets import figures


async def compare(stage: Stage) -> list[Figure]:
    options = stage.options
    started = datetime.now(UTC).isoformat(timespec="seconds")
    peers = chosen_peers(options.store, options.peers, read_table())
    broken = await make_environments(stage, peers)
    sides = [
        ourselves(options.store),
        *(peer.side() for peer in peers if peer.name not in broken),
        limit(options.store),
    ]
    measures = [Measure(name) for name in options.measures or Measure]
    with place(options.store, stage.folder) as where:
        course = Course(sides, where, measures)
        syncs = await run_course(stage, course)
        version = where.version
    result = StoreResult(
        store=options.store,
        version=version,
        taskyard=commit(),
        started=started,
        rounds=course.rounds,
        seconds=options.each,
        machine=machine(syncs),
        sides=[*collected(course, started), *left_out(peers, broken)],
    )
    latest = keep(result, RESULTS)
    (RESULTS / "latest.md").write_text(markdown(latest))
    draw(latest, RESULTS / "latest.png")
    for table in tables(result):
        stage.show(table)
    return figures(result)


async def make_environments(stage: Stage, peers: Sequence[Peer]) -> dict[str, str]:
    """Of those that could not be made: why."""
    broken: dict[str, str] = {}
    with stage.steps("environments of the peers", len(peers)) as advance:
        for peer in peers:
            try:
                await make_environment(peer)
            except RuntimeError as error:
                broken[peer.name] = str(error)
                stage.show(Text(f"{peer.name} cannot be installed and is left out: {error}", "red"))
            advance(1)
    return broken


async def run_course(stage: Stage, course: Course) -> list[float]:
    """Prepare and run the rounds; what fsync took meanwhile, in ms."""
    options, begun = stage.options, time.monotonic()
    await prepare(stage, course)
    syncs = time_syncs(stage.folder)
    longest = course.round_seconds
    stage.show(
        f"{options.rounds} rounds of about {longest:.0f} s: {told(options.rounds * longest)}"
    )
    with stage.steps("seconds of runs", options.rounds * longest) as advance:
        for number in range(options.rounds):
            known, at = len(course.troubles), time.monotonic()
            if at + longest - begun > 60 * options.minutes:
                stage.show(f"{number} rounds are what fits {options.minutes:g} minutes")
                break
            await course.round(number, advance)
            syncs += time_syncs(stage.folder)
            longest = time.monotonic() - at
            left = (options.rounds - number - 1) * longest
            stage.show(f"round {number + 1}: {longest:.0f} s; about {told(left)} left")
            tell_troubles(stage, course, known)
    return syncs


async def prepare(stage: Stage, course: Course) -> None:
    pairs = len(list(course.pairs()))
    with stage.steps("finding out how many tasks fit a run", pairs) as advance:
        await course.prepare(
            each=stage.options.each, tasks=stage.options.tasks, on_next=lambda: advance(1)
        )
    tell_troubles(stage, course, 0)


def tell_troubles(stage: Stage, course: Course, known: int) -> None:
    for (name, measure), why in course.troubles[known:]:
        ends = " and is left out there" if (name, measure) in course.failed else ""
        stage.show(Text(f"{name} failed at {NAMES[measure]}{ends}: {why}", style="red"))


def told(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def collected(course: Course, started: str) -> list[SideResult]:
    answers = course.lengthened()
    return [
        SideResult(
            name=side.name,
            role=side.role,
            settings=side.settings,
            loses=side.loses,
            measured={
                measure: Measured(
                    started=started, count=course.plans[name, measure].count, answers=found
                )
                for (name, measure), found in answers.items()
                if name == side.name and any(found)
            },
            asked=plan.asked if (plan := course.plans.get((side.name, Measure.PROCESS))) else None,
            failed={
                measure: why for (name, measure), why in course.failed.items() if name == side.name
            },
        )
        for side in course.sides
    ]


def left_out(peers: Sequence[Peer], broken: dict[str, str]) -> list[SideResult]:
    return [
        SideResult(
            name=peer.name,
            role=Role.PEER,
            settings=peer.settings,
            loses=peer.loses,
            failed=dict.fromkeys(peer.measures, broken[peer.name]),
        )
        for peer in peers
        if peer.name in broken
    ]


def machine(syncs: Sequence[float]) -> Machine:
    return Machine(
        cores=os.cpu_count() or 1,
        system=platform.system() + " " + platform.release(),
        python=platform.python_version(),
        load=os.getloadavg(),
        sync_ms=median(syncs),
    )


def time_syncs(folder: Path, times: int = 30) -> list[float]:
    """What the disk takes for a page and an fsync, in ms."""
    taken: list[float] = []
    with (folder / "page").open("wb", buffering=0) as file:
        for _ in range(times):
            begun = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            taken.append(1e3 * (time.perf_counter() - begun))
    return taken


def commit() -> str:
    """Of this tree, if it is one of git."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    return asked.stdout.strip()
