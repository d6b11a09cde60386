"""Tasks a second; on SQLite beside huey on the same disk in the same minutes.

Each round runs every side in a fresh process on an empty store. What counts is the ratio of the
medians: absolute figures of a shared machine differ by the hour. The ratio itself depends on the
disk: a peer that waits for the disk with every task falls further behind on a slow one, so what
an fsync took in the same rounds is shown beside it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.figure import Figure, Stage, median, percentile, spread
from bench.ground import UrlOf, ground

SPEC = ("engine-28",)
BOUND = "Reported only; no bound yet."

ROUNDS = 7
ONE_BY_ONE = 2_000
MANY = 10_000
PEERS = Path(__file__).parent / "peers"
ENVIRONMENTS = Path(__file__).parent.parent / ".venv-peers"
HUEY = "huey==3.5.4"

Rates = dict[str, list[float]]

MEASURED = {
    "processed": "processing, until the store knows",
    "one": "enqueue one at a time",
    "at_once": "enqueue by 100 coroutines at once",
    "bulk": "enqueue in calls of 1000",
}


class Side(msgspec.Struct, frozen=True):
    name: str
    command: Sequence[str]
    place: Callable[[int], str]  # an empty one for each round
    options: Sequence[str] = ()


async def measure(stage: Stage) -> list[Figure]:
    with ground(stage.options.store, stage.folder) as url_of:
        sides = [*await peers(stage), *ourselves(url_of)]
        rates: dict[str, Rates] = {side.name: {} for side in sides}
        syncs: list[float] = []
        with stage.steps("rounds", ROUNDS * len(sides)) as advance:
            for turn in range(ROUNDS):
                for side in sides:
                    for what, rate in (await one_round(side, turn)).items():
                        rates[side.name].setdefault(what, []).append(rate)
                    syncs += time_syncs(stage.folder)
                    advance(1)
    disk = Figure(
        name="an fsync of this disk, p50",
        value=median(syncs),
        unit="ms",
        detail=f"p99 {percentile(syncs, 99):.1f} ms",
    )
    own = rates["taskyard"]
    beside = against(rates["huey"], own) if "huey" in rates else alone(own)
    return [*beside, *with_uvloop(own, rates["uvloop"]), disk]


async def peers(stage: Stage) -> list[Side]:
    """Those that keep their tasks in the same kind of store."""
    if stage.options.store != "sqlite":
        return []
    with stage.steps("preparing the peer's environment", 1) as advance:
        python = await environment("huey", HUEY)
        advance(1)

    def place(turn: int) -> str:
        folder = stage.folder / f"huey{turn}"
        folder.mkdir()
        return str(folder)

    return [Side("huey", [str(python), str(PEERS / "huey_sqlite.py")], place)]


def ourselves(url_of: UrlOf) -> list[Side]:
    command = [sys.executable, "-m", "bench.peers.taskyard_itself"]
    return [
        Side("taskyard", command, lambda turn: url_of(f"asyncio{turn}")),
        Side("uvloop", command, lambda turn: url_of(f"uvloop{turn}"), ["uvloop"]),
    ]


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


async def one_round(side: Side, turn: int) -> dict[str, float]:
    amounts = str(ONE_BY_ONE), str(MANY)
    said = await output([*side.command, side.place(turn), *amounts, *side.options])
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


def against(huey: Rates, own: Rates) -> list[Figure]:
    """huey enqueues one at a time, whatever we do."""
    return [
        Figure(
            name=f"{name}: times huey's",
            value=median(own[what]) / median(huey.get(what, huey["one"])),
            detail=f"{median(own[what]):,.0f}/s to {median(huey.get(what, huey['one'])):,.0f}/s; "
            f"middle half {spread(own[what])}",
        )
        for what, name in MEASURED.items()
    ]


def alone(own: Rates) -> list[Figure]:
    return [
        Figure(
            name=name,
            value=median(own[what]),
            unit="/s",
            detail=f"middle half {spread(own[what])}",
        )
        for what, name in MEASURED.items()
    ]


def with_uvloop(own: Rates, uvloop: Rates) -> list[Figure]:
    return [
        Figure(
            name=f"{name}: uvloop times asyncio",
            value=median(uvloop[what]) / median(own[what]),
            detail=f"{median(uvloop[what]):,.0f}/s",
        )
        for what, name in MEASURED.items()
    ]
