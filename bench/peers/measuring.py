"""What the scripts of the peers share: the measures, the clock and the worker processes.

A script describes its queue as a `Peer` and calls `main`. This module runs in the environment of
each peer, so it keeps to the standard library; memory and processor time of the workers come from
/proc, so it needs Linux.

A handler does nothing but `mark(n)`: the time of its first line goes to a table in shared memory.
So every measure knows by itself that each task has run, and when.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import multiprocessing
import os
import random
import statistics
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, MutableSequence, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

AT_ONCE = 100
WARM_UP = 20
PAUSES = (0.005, 0.050)
_LOOK = 0.002
_PATIENCE = 120.0

_CONTEXT = multiprocessing.get_context("spawn")
_began: MutableSequence[int] = []


def mark(n: int) -> None:
    """The first line of task `n`."""
    _began[n] = time.monotonic_ns()


class Peer(ABC):
    """A queue on an empty store. Each process makes its own from the same URL and options."""

    bulk = 1_000
    """Tasks in a call of `enqueue_many`."""

    def __init__(self, url: str, *options: str) -> None:
        self.url = url
        self.options = options

    async def set_up(self) -> None:  # noqa: B027 - not every store has a schema
        """Make what must be there before anything else; once."""

    async def open(self) -> None:  # noqa: B027 - not every client has to connect
        """Get ready to enqueue."""

    @abstractmethod
    async def enqueue(self, n: int) -> None: ...

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """A peer without a bulk API is filled like this, and does not list the measure."""
        for n in numbers:
            await self.enqueue(n)

    @abstractmethod
    async def is_done(self) -> bool:
        """Asked when all handlers have run: does the store know it?"""

    @abstractmethod
    def work(self, go: Callable[[], None]) -> None:
        """In a process of its own: get ready, call `go`, and work until killed."""


def main(kind: type[Peer]) -> None:
    """`python <script> MEASURE URL COUNT WORKERS [options...]`; prints the figures as JSON."""
    logging.disable(logging.INFO)
    measure, url, count, workers, *options = sys.argv[1:]
    asyncio.run(_tell(_MEASURES[measure](kind(url, *options), int(count), int(workers))))


async def _tell(measuring: Coroutine[None, None, dict[str, float]]) -> NoReturn:
    figures = await measuring
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}), flush=True)
    # Clients that were not closed must not keep the process, nor say a word about it.
    os._exit(0)


async def _one(peer: Peer, count: int, _: int) -> dict[str, float]:
    await _ready(peer)
    await peer.enqueue(0)  # connects
    begun = time.monotonic()
    for n in range(count):
        await peer.enqueue(n)
    return {"rate": count / (time.monotonic() - begun)}


async def _at_once(peer: Peer, count: int, _: int) -> dict[str, float]:
    await _ready(peer)
    await peer.enqueue(0)
    await asyncio.gather(*(peer.enqueue(0) for _ in range(AT_ONCE)))  # connects as often as it can
    begun = time.monotonic()
    numbers = iter(range(count))

    async def some() -> None:
        for n in numbers:
            await peer.enqueue(n)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return {"rate": count / (time.monotonic() - begun)}


async def _bulk(peer: Peer, count: int, _: int) -> dict[str, float]:
    await _ready(peer)
    begun = time.monotonic()
    await _fill(peer, count)
    return {"rate": count / (time.monotonic() - begun)}


async def _process(peer: Peer, count: int, workers: int) -> dict[str, float]:
    """Both rates begin with the first line of the first handler: starting up is not counted."""
    await _ready(peer)
    await _fill(peer, count)
    print("begin", flush=True)  # from here on it is counted what the store is asked
    crew = Crew(peer, count, workers)
    crew.start()
    await crew.until(lambda: any(crew.began))
    cpu = crew.cpu()
    ran = 0

    def all_ran() -> bool:
        nonlocal ran
        while ran < count and crew.began[ran]:
            ran += 1
        return ran == count

    await crew.until(all_ran)
    late = time.monotonic() + _PATIENCE
    while not await peer.is_done():
        if time.monotonic() > late:
            raise TimeoutError("the store does not know that all tasks are done")
        await asyncio.sleep(_LOOK)
    done = time.monotonic_ns()
    figures = {
        "rate": count / (max(crew.began) - min(crew.began)) * 1e9,
        "done": count / (done - min(crew.began)) * 1e9,
        "rss_mb": crew.peak_mb(),
        "cpu_us": (crew.cpu() - cpu) / count * 1e6,
    }
    crew.end()
    return figures


async def _idle(peer: Peer, count: int, workers: int) -> dict[str, float]:
    await _ready(peer)
    crew = Crew(peer, WARM_UP + count, workers)
    crew.start()
    took = []
    for n in range(WARM_UP + count):
        await asyncio.sleep(random.uniform(*PAUSES))
        # A handler may begin before the caller has its answer, so it is timed from the call.
        called = time.monotonic_ns()
        await peer.enqueue(n)
        await crew.until(lambda n=n: crew.began[n])  # type: ignore[misc]  # n of this round
        took.append((crew.began[n] - called) / 1e6)
    crew.end()
    percentiles = statistics.quantiles(took[WARM_UP:], n=100, method="inclusive")
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98]}


_MEASURES = {"one": _one, "at_once": _at_once, "bulk": _bulk, "process": _process, "idle": _idle}


async def _ready(peer: Peer) -> None:
    await peer.set_up()
    await peer.open()
    gc.collect()


async def _fill(peer: Peer, count: int) -> None:
    for start in range(0, count, peer.bulk):
        await peer.enqueue_many(range(start, min(start + peer.bulk, count)))


class Crew:
    """Worker processes. They get ready first and begin together."""

    def __init__(self, peer: Peer, count: int, workers: int) -> None:
        self.began: MutableSequence[int] = _CONTEXT.RawArray("q", count)
        self._processes: list[BaseProcess] = []
        self._lines: list[Connection] = []
        for _ in range(workers):
            ours, theirs = _CONTEXT.Pipe()
            given = (type(peer), peer.url, peer.options, self.began, theirs)
            process = _CONTEXT.Process(target=_work, args=given, daemon=True)
            process.start()
            theirs.close()  # so that the end of the process is the end of the line
            self._processes.append(process)
            self._lines.append(ours)

    def start(self) -> None:
        for line in self._lines:
            if not line.poll(_PATIENCE):
                raise TimeoutError("a worker does not get ready")
            line.recv()
        for line in self._lines:
            line.send("start")

    async def until(self, true: Callable[[], Any]) -> None:
        """Look again and again; give up if a worker ends, or if it takes far too long."""
        late = time.monotonic() + _PATIENCE
        while True:
            await asyncio.sleep(_LOOK)
            if true():
                return
            if not all(process.is_alive() for process in self._processes):
                raise ChildProcessError("a worker has ended")
            if time.monotonic() > late:
                raise TimeoutError(f"{self.began[:].count(0)} tasks have not run")

    def cpu(self) -> float:
        """Seconds of processor time, of all workers."""
        return sum(map(_cpu_seconds, self._processes))

    def peak_mb(self) -> float:
        """Of the largest worker."""
        return max(map(_peak_mb, self._processes))

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def _work(
    kind: type[Peer],
    url: str,
    options: Sequence[str],
    began: MutableSequence[int],
    line: Connection,
) -> None:
    global _began  # noqa: PLW0603 - a handler is a plain function and finds it here
    _began = began
    logging.disable(logging.INFO)

    def go() -> None:
        line.send("ready")
        line.recv()
        threading.Thread(target=_end_with_parent, args=(line,), daemon=True).start()

    kind(url, *options).work(go)


def _end_with_parent(line: Connection) -> None:
    """Also if it is killed: nothing more is ever said, so all that comes is the end of the line."""
    with contextlib.suppress(EOFError, OSError):
        line.recv()
    os._exit(1)


def _cpu_seconds(process: BaseProcess) -> float:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    fields = stat.rpartition(")")[2].split()  # the name of a program may hold spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(process: BaseProcess) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024
