"""What a worker process takes: memory with a million tasks queued, and time when there are none."""

from __future__ import annotations

from pathlib import Path

from bench.figure import Figure, Stage
from bench.ground import ground
from bench.process import peak_mb, resident_mb, usage
from bench.worker_process import make_yard, passing, worker_process
from taskyard import Yard
from taskyard.domain.state import State

SPEC = ("engine-12", "engine-28")
BOUND = (
    "A worker with a million tasks queued stays under 100 MB; an idle one takes under 1 % of a "
    "core, and writes little more than its lease."
)

QUEUED = 1_000_000
CHUNK = 10_000
BUSY_SECONDS = 20
SETTLE_SECONDS = 5
IDLE_SECONDS = 60
MOST_MB = 100.0
MOST_CPU = 1.0
# A beat every 10 s is 6 a minute; three duties renewed every 15 s are 12.
MOST_COMMITS = 20.0


async def measure(stage: Stage) -> list[Figure]:
    with ground(stage.options.store, stage.folder) as url_of:
        idle = await measure_idle(stage, url_of("idle"))
        return [*await measure_memory(stage, url_of("queued")), *idle]


async def measure_memory(stage: Stage, url: str) -> list[Figure]:
    """A million behind a narrow lane, then the same million as fast as it goes."""
    async with make_yard(url) as yard:
        await yard.set_lane("naps", capacity=10)
        await fill(stage, yard, "nap")
        slowly = await watch(stage, url, "draining slowly")
        await yard.set_lane("naps", capacity=0)
        full = await watch(stage, url, "lane full")
        await yard.set_lane("naps", capacity=None)
        freely = await watch(stage, url, "draining freely")
        left = (await yard.counts())[State.QUEUED]
    names = ("ten at a time", "lane full", "a hundred at a time")
    return [
        Figure(
            name=f"peak RSS, a million queued, {name}",
            value=peak,
            unit="MB",
            at_most=MOST_MB,
            detail=f"at the end {end:.0f} MB" + (f", {left:,} left" if end is freely[1] else ""),
        )
        for name, (peak, end) in zip(names, (slowly, full, freely), strict=True)
    ]


async def fill(stage: Stage, yard: Yard, kind: str) -> None:
    task = yard.kind(kind)
    with stage.steps("filling", QUEUED) as advance:
        for _ in range(QUEUED // CHUNK):
            await yard.enqueue(*(task.new() for _ in range(CHUNK)))
            advance(CHUNK)


async def watch(stage: Stage, url: str, what: str) -> tuple[float, float]:
    """(peak, last) resident memory of a worker that runs for a while."""
    async with worker_process(url) as pid:
        await passing(stage, what, BUSY_SECONDS)
        return peak_mb(pid), resident_mb(pid)


async def measure_idle(stage: Stage, url: str) -> list[Figure]:
    path = url.removeprefix("sqlite:///")
    database = None if path == url else Path(path)
    async with worker_process(url) as pid:
        await passing(stage, "settling", SETTLE_SECONDS)
        before = usage(pid, database)
        await passing(stage, "idle", IDLE_SECONDS)
        used = usage(pid, database) - before
        memory = resident_mb(pid)
    minutes = IDLE_SECONDS / 60
    figures = [
        Figure(
            name="CPU of an idle worker",
            value=100 * used.cpu_seconds / IDLE_SECONDS,
            unit="% of a core",
            at_most=MOST_CPU,
            detail=f"{used.cpu_seconds:.2f} s of {IDLE_SECONDS} s; RSS {memory:.0f} MB",
        ),
        Figure(name="wake-ups of an idle worker", value=used.wake_ups / minutes, unit="/min"),
    ]
    if database is not None:  # what a fleet asks of a server is in idle_fleet
        figures.append(
            Figure(
                name="commits of an idle worker",
                value=used.commits / minutes,
                unit="/min",
                at_most=MOST_COMMITS,
                detail=f"the WAL grew by {used.wal_bytes:,} bytes",
            )
        )
    return figures
