"""Throughput of one worker while another connection to PostgreSQL holds a snapshot open.

No version of a row that the snapshot could see is removed, and none that came after it: whatever
looks for work among dead rows gets slower by the minute. What counts is the rate of the first
seconds against that of the last, and how both differ from the same run without a snapshot.

Each run has a server of its own. Two loads: `steady`, tasks offered at a rate the worker can
hold, where one that falls behind leaves a backlog; and `flood`, a backlog that is filled up as it
drains, where the worker goes as fast as it can.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum

import asyncpg
import msgspec

from bench.figure import Figure, Options, Stage
from bench.tally import Tally, make_yard, tallying_worker
from taskyard import Yard
from taskyard.domain.task import NewTask
from tests.servers.postgres import PostgresServer

STORE = "postgres"  # whatever is chosen
SPEC = ("engine-29",)
BOUND = (
    "With a snapshot held open for a minute a worker does as much in the last ten seconds as in "
    "the first: at least 85 %, and no offered task is left behind."
)

WARM_UP = 5.0
WINDOW = 10.0
OFFER_EVERY = 0.1
FLOOD_BACKLOG = 50_000
CHUNK = 1_000
KEYS = 1_000
MOST_SLOWED = 1 / 0.85
MOST_BEHIND = 2.0


class Load(StrEnum):
    STEADY = "steady"
    FLOOD = "flood"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to."""

    load: Load
    rate: int
    held: bool
    first: float
    last: float
    backlog: int
    dead_rows: int

    @property
    def name(self) -> str:
        return f"{self.load}, {'snapshot held' if self.held else 'no snapshot'}"

    @property
    def slowed(self) -> float:
        return self.first / max(self.last, 0.1)


async def measure(stage: Stage) -> list[Figure]:
    loads = [Load(stage.options.load)] if stage.options.load else list(Load)
    figures: list[Figure] = []
    for load in loads:
        free = await one_run(stage, load, held=False)
        held = await one_run(stage, load, held=True)
        figures += [*about(free), *about(held)]
        figures.append(
            Figure(
                name=f"{load}: last seconds, without a snapshot to with one",
                value=free.last / max(held.last, 0.1),
                detail=f"{free.last:,.0f}/s to {held.last:,.0f}/s",
            )
        )
    return figures


async def one_run(stage: Stage, load: Load, *, held: bool) -> Run:
    server = PostgresServer()
    server.start()
    try:
        async with make_yard(server.url, [0]) as yard, tallying_worker(server.url) as tally:
            if stage.options.lane_capacity is not None:
                await yard.set_lane("default", capacity=stage.options.lane_capacity)
            offer = Offer(yard, tally, load, stage.options)
            async with offering(offer):
                return await watch(stage, server.url, offer, held=held)
    finally:
        server.remove()


class Offer:
    """Enqueues in bulk, and knows how much it has."""

    def __init__(self, yard: Yard, tally: Tally, load: Load, options: Options) -> None:
        self._yard = yard
        self._tally = tally
        self._noop = yard.kind("noop")
        self._keyed = options.keyed
        self.rate = options.rate
        self.load = load
        self.offered = 0

    @property
    def backlog(self) -> int:
        return self.offered - self._tally.done

    @property
    def done(self) -> Tally:
        return self._tally

    async def fill(self) -> None:
        """What a flood begins with."""
        while self.load is Load.FLOOD and self.offered < FLOOD_BACKLOG:
            await self._add(CHUNK)

    async def keep_on(self) -> None:
        begun, before = time.monotonic(), self.offered
        while True:
            match self.load:
                case Load.STEADY:
                    due = int((time.monotonic() - begun) * self.rate) - (self.offered - before)
                case Load.FLOOD:
                    due = FLOOD_BACKLOG - self.backlog
            while due > 0:
                await self._add(min(due, CHUNK))
                due -= CHUNK
            await asyncio.sleep(OFFER_EVERY)

    async def _add(self, count: int) -> None:
        await self._yard.enqueue(*(self._new(self.offered + at) for at in range(count)))
        self.offered += count

    def _new(self, n: int) -> NewTask:
        if self._keyed:
            return self._noop.options(key=f"k{n % KEYS}").new(n)
        return self._noop.new(n)


@asynccontextmanager
async def offering(offer: Offer) -> AsyncIterator[None]:
    await offer.fill()
    task = asyncio.create_task(offer.keep_on())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task  # raises what ended it before its time


async def watch(stage: Stage, url: str, offer: Offer, *, held: bool) -> Run:
    seconds = stage.options.seconds
    window = min(WINDOW, seconds / 2)
    title = f"{offer.load}, {'snapshot held' if held else 'no snapshot'}"
    with stage.steps(title, WARM_UP + seconds) as advance:
        await passing(WARM_UP, advance)
        async with snapshot(url, held=held):
            begun = time.monotonic()
            await passing(seconds, advance)
            ended = begun + seconds
            backlog = offer.backlog
            dead_rows = await count_dead_rows(url)
    await offer.done.reaches(ended)
    return Run(
        load=offer.load,
        rate=offer.rate,
        held=held,
        first=offer.done.rate(begun, begun + window),
        last=offer.done.rate(ended - window, ended),
        backlog=backlog,
        dead_rows=dead_rows,
    )


async def passing(seconds: float, advance: Callable[[float], None]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        step = min(left, 1.0)
        await asyncio.sleep(step)
        advance(step)


@asynccontextmanager
async def snapshot(url: str, *, held: bool) -> AsyncIterator[None]:
    """A transaction that has read, and sees what it saw then until it ends."""
    if not held:
        yield
        return
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetchval("SELECT count(*) FROM pg_class")
            yield
    finally:
        await connection.close()


async def count_dead_rows(url: str) -> int:
    """As the server's own statistics have it, over all tables."""
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT sum(n_dead_tup) FROM pg_stat_user_tables"))
    finally:
        await connection.close()


def about(run: Run) -> list[Figure]:
    figures = [
        Figure(
            name=f"{run.name}: first seconds to last",
            value=run.slowed,
            at_most=MOST_SLOWED if run.held else None,
            detail=f"{run.first:,.0f}/s → {run.last:,.0f}/s; {run.dead_rows:,} dead rows",
        )
    ]
    if run.load is Load.STEADY:
        figures.append(
            Figure(
                name=f"{run.name}: left behind",
                value=run.backlog / run.rate,
                unit="s of load",
                at_most=MOST_BEHIND if run.held else None,
                detail=f"{run.backlog:,} tasks of {run.rate:,}/s",
            )
        )
    return figures
