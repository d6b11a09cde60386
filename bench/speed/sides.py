"""Who takes part: Taskyard as it comes, the peers of peers.toml, and the limits of the store."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent.parent
PEERS = ROOT / "bench" / "peers"
TABLE = PEERS / "peers.toml"
ENVIRONMENTS = ROOT / ".venv-peers"

PIN = re.compile(r"^([A-Za-z0-9._-]+)(\[[A-Za-z0-9,._-]+\])?==[A-Za-z0-9.!+_-]+$")


class Measure(StrEnum):
    """What a run measures; the first six are for every side, the others for Taskyard alone,
    `lane` also for the bare store."""

    PROCESS = "process"
    PROCESS_BY_TWO = "process_by_two"  # `process` with two worker processes
    ONE = "one"
    AT_ONCE = "at_once"
    BULK = "bulk"
    IDLE = "idle"
    KEYED = "keyed"
    LANE = "lane"
    IDLE_HERE = "idle_here"  # `idle` with the worker in the process that enqueues

    @property
    def is_processing(self) -> bool:
        return self in PROCESSING

    @property
    def is_idle(self) -> bool:
        return self in (Measure.IDLE, Measure.IDLE_HERE)

    @property
    def figure(self) -> str:
        """What of a run's answer is compared."""
        return "p50_ms" if self.is_idle else "done" if self.is_processing else "rate"


PROCESSING = frozenset({Measure.PROCESS, Measure.PROCESS_BY_TWO, Measure.KEYED, Measure.LANE})

NAMES = {
    Measure.PROCESS: "processing, one process",
    Measure.PROCESS_BY_TWO: "processing, two processes",
    Measure.ONE: "enqueue one at a time",
    Measure.AT_ONCE: "enqueue, 100 coroutines at once",
    Measure.BULK: "enqueue in bulk",
    Measure.IDLE: "idle pick-up",
    Measure.KEYED: "processing, 1 000 keys with limit 1",
    Measure.LANE: "processing, lane of capacity 100 with ten priorities",
    Measure.IDLE_HERE: "idle pick-up in the same process",
}


class Role(StrEnum):
    OWN = "own"
    PEER = "peer"
    LIMIT = "limit"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One that is measured: `command MEASURE URL COUNT WORKERS options…`, in `folder`."""

    name: str
    role: Role
    measures: frozenset[Measure]
    command: tuple[str, ...]
    folder: Path
    options: tuple[str, ...] = ()
    settings: str = ""
    loses: bool = False  # a kill of the worker loses the tasks it has

    def argv(self, measure: Measure, url: str, count: int) -> list[str]:
        workers = "2" if measure is Measure.PROCESS_BY_TWO else "1"
        told = Measure.PROCESS if measure.is_processing else measure
        special = [measure] if measure in (Measure.KEYED, Measure.LANE) else []
        return [*self.command, told, url, str(count), workers, *self.options, *special]


class Peer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of peers.toml."""

    name: str
    script: str
    store: str
    requirements: tuple[str, ...]
    measures: tuple[Measure, ...]
    settings: str
    options: tuple[str, ...] = ()
    loses: bool = False

    def is_called(self, name: str) -> bool:
        """`taskiq` is every entry of taskiq."""
        return self.name == name or self.name.startswith(f"{name}-")

    @property
    def environment(self) -> Path:
        """Shared by all entries with the same requirements."""
        pin = PIN.match(self.requirements[0])
        if pin is None:
            raise ValueError(f"{self.name}: {self.requirements[0]} is not pinned to one version")
        return ENVIRONMENTS / pin[1].lower()

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    def side(self) -> Side:
        both = {Measure.PROCESS_BY_TWO} if Measure.PROCESS in self.measures else set()
        return Side(
            name=self.name,
            role=Role.PEER,
            measures=frozenset(self.measures) | both,
            command=(str(self.python), self.script),
            folder=PEERS,
            options=self.options,
            settings=self.settings,
            loses=self.loses,
        )


def read_table(path: Path = TABLE) -> list[Peer]:
    """The tables of peers.toml, whatever they are called."""
    tables = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Peer] | Peer])
    return [
        peer
        for found in tables.values()
        for peer in (found if isinstance(found, list) else [found])
    ]


def chosen_peers(store: str, names: Sequence[str] | None, table: Sequence[Peer]) -> list[Peer]:
    """Those of a store, or of these names alone."""
    here = [peer for peer in table if peer.store == store]
    return here if names is None else [peer for peer in here if any(map(peer.is_called, names))]


def ourselves(store: str) -> Side:
    extra = set() if store == "sqlite" else {Measure.IDLE_HERE}
    return Side(
        name="taskyard",
        role=Role.OWN,
        measures=frozenset(Measure) - extra,
        command=(sys.executable, "taskyard_itself.py"),
        folder=PEERS,
        settings="as it comes: leases, kept history, full durability",
    )


def limit(store: str) -> Side:
    return Side(
        name="bare store",
        role=Role.LIMIT,
        measures=frozenset(
            {
                Measure.PROCESS,
                Measure.ONE,
                Measure.AT_ONCE,
                Measure.BULK,
                Measure.IDLE,
                Measure.LANE,
            }
        ),
        command=(sys.executable, "-m", f"bench.limits.{store}"),
        folder=ROOT,
        settings="bare loops with the same contract: bench/limits",
    )


async def make_environment(peer: Peer) -> None:
    """Once; again if what is required has changed."""
    marker = peer.environment / "installed"
    wanted = "\n".join(peer.requirements)
    if marker.exists() and marker.read_text() == wanted:
        return
    await _run(sys.executable, "-m", "venv", "--clear", str(peer.environment))
    pip = (str(peer.python), "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input")
    await _run(*pip, "install", *peer.requirements)
    marker.write_text(wanted)


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    if process.returncode:
        text = said.decode(errors="replace").strip()
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {text}")
