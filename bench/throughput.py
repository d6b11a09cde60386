"""Tasks a second on SQLite, beside huey on the same disk in the same minutes.

Each round runs every side in a fresh process on a fresh file. What counts is the ratio of the
medians: absolute figures of a shared machine differ by the hour. The ratio itself depends on the
disk: a peer that waits for the disk with every task falls further behind on a slow one, so what
an fsync took in the same rounds is shown beside it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.figure import Figure, Stage, median, percentile, spread

SPEC = ("engine-28",)
BOUND = "Reported only; no bound yet."

ROUNDS = 7
ONE_BY_ONE = 2_000
MANY = 10_000
PEERS = Path(__file__).parent / "peers"
ENVIRONMENTS = Path(__file__).parent.parent / ".venv-peers"
HUEY = "huey==3.5.4"

Rates = dict[str, list[float]]


async def measure(stage: Stage) -> list[Figure]:
    with stage.steps("preparing the peer's environment", 1) as advance:
        python = await environment("huey", HUEY)
        advance(1)
    own = [sys.executable, "-m", "bench.peers.taskyard_sqlite"]
    sides: dict[str, tuple[list[str], list[str]]] = {
        "huey": ([str(python), str(PEERS / "huey_sqlite.py")], []),
        "taskyard": (own, []),
        "uvloop": (own, ["uvloop"]),
    }
    rates: dict[str, Rates] = {name: {} for name in sides}
    syncs: list[float] = []
    with stage.steps("rounds", ROUNDS * len(sides)) as advance:
        for _ in range(ROUNDS):
            for name, (command, options) in sides.items():
                measured = await one_round(stage.folder, command, options)
                for what, rate in measured.items():
                    rates[name].setdefault(what, []).append(rate)
                syncs += time_syncs(stage.folder)
                advance(1)
    disk = Figure(
        name="an fsync of this disk, p50",
        value=median(syncs),
        unit="ms",
        detail=f"p99 {percentile(syncs, 99):.1f} ms",
    )
    return [*figures(rates["huey"], rates["taskyard"], rates["uvloop"]), disk]


async def environment(name: str, requirement: str) -> Path:
    """The Python of a virtual environment with this in it, made once."""
    folder = ENVIRONMENTS / name
    marker = folder / "installed"
    python = folder / "bin" / "python"
    if not marker.exists() or marker.read_text() != requirement:
        await output([sys.executable, "-m", "venv", str(folder)])
        await output([str(python), "-m", "pip", "install", "--quiet", requirement])
        marker.write_text(requirement)
    return python


async def one_round(
    folder: Path, command: Sequence[str], options: Sequence[str]
) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        said = await output([*command, place, str(ONE_BY_ONE), str(MANY), *options])
    return msgspec.json.decode(said, type=dict[str, float])


async def output(command: Sequence[str]) -> bytes:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return said


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


def figures(huey: Rates, own: Rates, uvloop: Rates) -> list[Figure]:
    against = {
        "processing, until the store knows": ("processed", "processed"),
        "enqueue one at a time": ("one", "one"),
        "enqueue by 100 coroutines at once": ("at_once", "one"),
        "enqueue in calls of 1000": ("bulk", "one"),
    }
    found = [
        Figure(
            name=f"{name}: times huey's",
            value=median(own[ours]) / median(huey[theirs]),
            detail=f"{median(own[ours]):,.0f}/s to {median(huey[theirs]):,.0f}/s; "
            f"middle half {spread(own[ours])}",
        )
        for name, (ours, theirs) in against.items()
    ]
    for name, (ours, _) in against.items():
        found.append(
            Figure(
                name=f"{name}: uvloop times asyncio",
                value=median(uvloop[ours]) / median(own[ours]),
                detail=f"{median(uvloop[ours]):,.0f}/s",
            )
        )
    return found
