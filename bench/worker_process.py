"""A worker in a process of its own, as a user would run it, and how to start one.

Run as a module it works on one URL until SIGTERM, after saying `ready`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.figure import Stage
from taskyard import Yard


def make_yard(url: str) -> Yard:
    yard = Yard(url)

    @yard.task()
    async def stamp() -> int:
        """When it started; CLOCK_MONOTONIC is one clock for all processes of a machine."""
        return time.monotonic_ns()

    @yard.task(lane="naps")
    async def nap() -> None:
        await asyncio.sleep(0.05)

    @yard.task()
    async def noop(n: int) -> None:
        pass

    return yard


async def work(url: str, slots: int) -> None:
    yard = make_yard(url)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = yard.worker(slots=slots)
    await worker.start()
    print("ready", flush=True)
    await stopped.wait()
    await worker.stop()
    await yard.close()


@asynccontextmanager
async def worker_process(url: str, *, slots: int = 100) -> AsyncIterator[int]:
    """Runs a worker while inside; gives its process number."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, str(slots), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = await process.stdout.readline()
        assert said == b"ready\n", f"the worker did not start: {said!r}"
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def passing(stage: Stage, what: str, seconds: int) -> None:
    with stage.steps(what, seconds) as advance:
        for _ in range(seconds):
            await asyncio.sleep(1)
            advance(1)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
