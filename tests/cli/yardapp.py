"""The application the command line is tried on; its store is the one of TASKYARD_URL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path

from taskyard import Context, Fatal, Retry, Yard

yard = Yard(os.environ["TASKYARD_URL"])
not_a_yard = "just a text"


@yard.task()
async def greet(name: str, times: int = 1) -> str:
    return ", ".join(f"hello {name}" for _ in range(times))


@yard.task(retry=Retry.never())
async def fail(message: str = "boom") -> None:
    raise ValueError(message)


@yard.task(retry=Retry.fixed(2, delay=3600))
async def fail_for_now() -> None:
    raise ConnectionError("nobody there")


@yard.task()
async def refuse() -> None:
    raise Fatal("never again")


@yard.task(lane="held")
async def hold(ctx: Context, note: str = "") -> None:
    """Runs until it is stopped."""
    await ctx.progress(1, 4, note)
    await asyncio.Event().wait()


@yard.task()
def read(pipe: str) -> str:
    """Runs until somebody has written to the pipe."""
    return Path(pipe).read_text()


@yard.task(retry=Retry.fixed(1, delay=0.0))
def talk(ctx: Context, pipe: str) -> None:
    """Fails the first time; then it runs until somebody has written to the pipe."""
    ctx.log.info("begun", attempt_so_far=ctx.attempt)
    ctx.log.debug("a detail")
    if ctx.attempt == 1:
        raise ValueError("boom")
    ctx.log.warning("read\nin two lines: %s", Path(pipe).read_text(), password="hunter2")


@yard.task()
async def count(ctx: Context, lines: int) -> None:
    """Says much."""
    for number in range(lines):
        ctx.log.info("line", number=number)


@yard.task()
async def stubborn() -> None:
    """Does not stop when it is asked to."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@yard.task()
async def delegate() -> None:
    """Can be stopped, but leaves a thread behind that cannot."""
    await asyncio.to_thread(threading.Event().wait)
