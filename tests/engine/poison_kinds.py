"""Kinds that run in the worker's own process, some of which kill it; children import them too."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from taskyard import Context, Retry, Yard

yard = Yard(os.environ.get("TASKYARD_TEST_URL", "sqlite://:memory:"))
AT_ONCE = Retry.fixed(3, delay=0.0)


@yard.task(retry=AT_ONCE)
async def good(n: int) -> int:
    await asyncio.sleep(0.001)
    return n


@yard.task(retry=AT_ONCE)
def good_thread(n: int) -> int:
    return n


@yard.task(retry=AT_ONCE)
async def exits() -> None:
    os._exit(7)


@yard.task(retry=AT_ONCE)
def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@yard.task(retry=AT_ONCE)
async def where(ctx: Context) -> tuple[int, int]:
    return ctx.attempt, os.getpid()


@yard.task(retry=AT_ONCE)
def where_thread(ctx: Context) -> tuple[int, int]:
    return ctx.attempt, os.getpid()


@yard.task(retry=AT_ONCE)
def gated(folder: str, n: int) -> int:
    """Tells that it has begun, and ends when there is a file called `go`."""
    Path(folder, f"began-{n}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.005)
    return n
