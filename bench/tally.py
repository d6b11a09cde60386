"""A worker in a process of its own that says, several times a second, how much it has done.

Run as a module it works on one URL until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from taskyard import Yard

EVERY = 0.25


class Tally:
    """How many bodies had run at which moment of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []
        self._marked = asyncio.Event()

    def mark(self, moment: float, done: int) -> None:
        self.marks.append((moment, done))
        self._marked.set()

    async def reaches(self, moment: float) -> None:
        """Wait until it is known how much was done by then."""
        while not self.marks or self.marks[-1][0] < moment:
            self._marked.clear()
            await self._marked.wait()

    @property
    def done(self) -> int:
        return self.marks[-1][1] if self.marks else 0

    def rate(self, begin: float, end: float) -> float:
        """Bodies a second between two moments."""
        return (self._at(end) - self._at(begin)) / (end - begin)

    def _at(self, moment: float) -> float:
        """On the line between the two marks around it."""
        after = bisect_left(self.marks, (moment, 0))
        if after == len(self.marks):
            return self.done
        if after == 0:
            return self.marks[0][1]
        (t0, n0), (t1, n1) = self.marks[after - 1], self.marks[after]
        return n0 + (n1 - n0) * (moment - t0) / (t1 - t0)


def make_yard(url: str, done: list[int]) -> Yard:
    """One kind that does nothing; `done` has one number, of how often."""
    yard = Yard(url)

    @yard.task()
    async def noop(n: int) -> None:  # noqa: ARG001 - a payload, as tasks have
        done[0] += 1

    return yard


async def work(url: str) -> None:
    done = [0]
    yard = make_yard(url, done)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = yard.worker()
    await worker.start()
    while not stopped.is_set():
        print(time.monotonic(), done[0], flush=True)
        await asyncio.sleep(EVERY)
    await worker.stop()
    await yard.close()


@asynccontextmanager
async def tallying_worker(url: str) -> AsyncIterator[Tally]:
    """Runs a worker with the default configuration while inside."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    tally = Tally()
    reading = asyncio.create_task(_read(process.stdout, tally))
    try:
        yield tally
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reading


async def _read(lines: asyncio.StreamReader, tally: Tally) -> None:
    async for line in lines:
        moment, done = line.split()
        tally.mark(float(moment), int(done))


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
