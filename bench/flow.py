"""A steady flow of tasks into a worker in a process of its own, which says when each body began.

Run as a module it works on one URL until its input ends. In between it prunes when it is told to,
as a worker does whose duty that is: from `prune` to `rest`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec

from taskyard import Retention, Yard
from taskyard.domain.retention import FOREVER
from taskyard.engine.maintenance.prune import PruneRun

TELL_EVERY = 0.1
OFFER_EVERY = 0.002
LONGEST_WAIT = 120.0

KEPT = Retention(completed=FOREVER, failed=FOREVER, cancelled=FOREVER)  # no duty prunes by itself
PRUNED = Retention(completed=timedelta(days=1), failed=FOREVER, cancelled=FOREVER)


def make_yard(url: str, began: list[tuple[int, int]]) -> Yard:
    """One kind, whose bodies note when they begin: CLOCK_MONOTONIC is one clock for a machine."""
    yard = Yard(url, retention=KEPT)

    @yard.task()
    async def mark(n: int) -> None:
        began.append((n, time.monotonic_ns()))

    return yard


# --- the worker's side ---


async def work(url: str) -> None:
    began: list[tuple[int, int]] = []
    async with make_yard(url, began) as yard:
        await yard.worker().start()
        telling = asyncio.create_task(tell(began))
        await obey(yard)
        telling.cancel()


async def tell(began: list[tuple[int, int]]) -> None:
    while True:
        lines = [f"began {n} {moment}" for n, moment in began]
        began.clear()
        if lines:
            print("\n".join(lines), flush=True)
        await asyncio.sleep(TELL_EVERY)


async def obey(yard: Yard) -> None:
    run = PruneRun(yard.store, PRUNED, actor="bench")
    wanted = asyncio.Event()
    pruning = asyncio.create_task(prune(run, wanted))
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    async for line in reader:
        if line == b"prune\n":
            wanted.set()
        else:
            wanted.clear()
    pruning.cancel()


async def prune(run: PruneRun, wanted: asyncio.Event) -> None:
    """Step by step with the rests that a duty takes; says when it has come to rest."""
    while True:
        await wanted.wait()
        rest = await run.step()
        print("pruned", run.pruned.tasks, flush=True)
        if rest is None:
            break
        await asyncio.sleep(rest)
        if not wanted.is_set():
            print("resting", flush=True)
    print("over", flush=True)


# --- the side of the bench ---


class Window(msgspec.Struct):
    """A time in which the worker pruned, or did not."""

    pruning: bool
    begin: int  # ns
    end: int = 0


class Flow:
    """Offers tasks at a steady rate, and knows when each was due, was saved, and began."""

    def __init__(self, process: Process, yard: Yard, rate: int) -> None:
        assert process.stdin is not None
        self._input = process.stdin
        self._mark = yard.kind("mark")
        self._yard = yard
        self._rate = rate
        self.due: list[int] = []  # when each was to be enqueued, in ns
        self.saved: list[int] = []  # and when it had been
        self.began: dict[int, int] = {}
        self.windows: list[Window] = []
        self.pruned = 0
        self.enough = False  # nothing more is to be offered
        self.ready = asyncio.Event()
        self.resting = asyncio.Event()
        self.over = asyncio.Event()
        self._all_began = asyncio.Event()

    async def offer(self) -> None:
        """Each has its moment; those whose moment passes while others are saved come late."""
        since, each = time.monotonic_ns(), 1e9 / self._rate
        while not self.enough:
            first = len(self.due)
            count = int((time.monotonic_ns() - since) / each) + 1 - first
            if count > 0:
                numbers = range(first, first + count)
                self.due += [since + int(n * each) for n in numbers]
                await self._yard.enqueue(*(self._mark.new(n) for n in numbers))
                self.saved += [time.monotonic_ns()] * count
            await asyncio.sleep(OFFER_EVERY)

    def hear(self, line: bytes) -> None:
        match line.split():
            case [b"began", n, moment]:
                self.began[int(n)] = int(moment)
            case [b"pruned", count]:
                self.pruned = int(count)
            case [b"ready"]:
                self.ready.set()
            case [b"resting"]:
                self.resting.set()
            case [b"over"]:
                self.over.set()
                self.resting.set()
            case _:
                raise ValueError(f"the worker says {line!r}")
        if len(self.began) == len(self.due):
            self._all_began.set()

    async def quiet(self, seconds: float) -> None:
        with self._window(pruning=False):
            await asyncio.sleep(seconds)

    async def prune(self, seconds: float) -> None:
        """For so long, or until nothing is left to prune."""
        self.resting.clear()
        with self._window(pruning=True):
            self._input.write(b"prune\n")
            await _first_of(self.over, seconds)
        self._input.write(b"rest\n")
        await asyncio.wait_for(self.resting.wait(), LONGEST_WAIT)

    @contextlib.contextmanager
    def _window(self, *, pruning: bool) -> Iterator[None]:
        window = Window(pruning, time.monotonic_ns())
        yield
        window.end = time.monotonic_ns()
        self.windows.append(window)

    async def drained(self) -> None:
        """Wait until everything that was offered has begun."""
        async with asyncio.timeout(LONGEST_WAIT):
            while len(self.began) < len(self.due):
                self._all_began.clear()
                await self._all_began.wait()

    def waits(self, *, pruning: bool) -> list[tuple[float, float]]:
        """From when each was due, and from when it had been saved, to its start; in ms."""
        found: list[tuple[float, float]] = []
        windows = [window for window in self.windows if window.pruning is pruning]
        for n, (due, saved) in enumerate(zip(self.due, self.saved, strict=True)):
            if any(window.begin <= due < window.end for window in windows):
                began = self.began[n]
                found.append(((began - due) / 1e6, max(0, began - saved) / 1e6))
        return found

    def seconds(self, *, pruning: bool) -> float:
        ours = (window for window in self.windows if window.pruning is pruning)
        return sum(window.end - window.begin for window in ours) / 1e9


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


@asynccontextmanager
async def flowing(url: str, yard: Yard, rate: int) -> AsyncIterator[Flow]:
    """A worker, and tasks for it at this rate while inside; all have begun at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, stdin=PIPE, stdout=PIPE
    )
    flow = Flow(process, yard, rate)
    reading = asyncio.create_task(_read(process, flow))
    offering: asyncio.Task[None] | None = None
    try:
        await asyncio.wait_for(flow.ready.wait(), LONGEST_WAIT)
        offering = asyncio.create_task(flow.offer())
        yield flow
        flow.enough = True
        await offering
        await flow.drained()
    finally:
        if offering is not None:
            offering.cancel()
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await reading


async def _read(process: Process, flow: Flow) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        flow.hear(line)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
