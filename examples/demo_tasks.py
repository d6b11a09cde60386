"""The kinds of the demonstration: what a small media service does all day."""

from __future__ import annotations

import asyncio
import os
import random
import time

from taskyard import Context, Retry, Yard

yard = Yard(os.environ.get("TASKYARD_URL", "sqlite:///demo.db"))


class ServerBusy(Exception):
    status_code = 503


@yard.task(lane="downloads", timeout=30)
async def download(subscription: int, episode: int) -> int:
    """One episode. Its key keeps a subscription from being downloaded twice at once."""
    await asyncio.sleep(random.uniform(0.1, 0.4))
    return 1000 * subscription + episode


@yard.task(lane="conversions", timeout=30)
def convert(file: str) -> str:
    """Plain blocking code runs in a thread."""
    time.sleep(random.uniform(0.1, 0.3))
    return f"{file}.mp4"


@yard.task(lane="downloads", retry=Retry.fixed(3, delay=1.0))
async def download_from_busy_server(ctx: Context) -> str:
    if ctx.attempt < 3:
        raise ServerBusy("503 Service Unavailable")
    return f"worked at attempt {ctx.attempt}"


@yard.task(lane="conversions")
async def export_everything(ctx: Context) -> None:
    """Takes an hour; somebody will change their mind."""
    for minute in range(60):
        await ctx.progress(minute, 60)
        await asyncio.sleep(60)


@yard.task(lane="downloads", retry=Retry.exponential(3))
async def build_index(ctx: Context) -> str:
    """Its first worker is killed under it."""
    await asyncio.sleep(3600 if ctx.attempt == 1 else 0.5)
    return f"index built at attempt {ctx.attempt}"
