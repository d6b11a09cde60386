"""The media service of the demonstration, with people who use it: `make serve`.

taskyard enqueue examples/service.py:yard visitors
taskyard serve examples/service.py:yard
"""

from __future__ import annotations

import asyncio
import random

from demo_tasks import convert, download, download_from_busy_server, export_everything, yard

from taskyard import Context, Fatal, Retry

__all__ = ["yard"]


@yard.task(lane="mail", retry=Retry.never())
async def send_letter(ctx: Context, to: str) -> str:
    """Not every address is a good one."""
    await asyncio.sleep(random.uniform(0, 0.05))
    if to == "nobody":
        ctx.log.warning("refused", to=to)
        raise Fatal(f"no such mailbox: {to}")
    return f"sent to {to}"


@yard.cron("* * * * *")
@yard.task(lane="mail")
async def newsletter(ctx: Context) -> int:
    """Every minute, to all who want it."""
    readers = ["ada", "grace", "lin"]
    for number, reader in enumerate(readers):
        ctx.log.info("written", to=reader)
        await ctx.progress(number + 1, len(readers))
        await asyncio.sleep(1)
    return len(readers)


@yard.task(lane="visitors", retry=Retry.never())
async def visitors(ctx: Context, seconds: int = 3600) -> None:
    """Somebody asks for something, again and again."""
    await yard.set_lane("downloads", capacity=6)
    await yard.set_lane("conversions", capacity=3)
    await yard.limit_key("disk:write", 2)
    for name in ("export:films", "export:series"):
        await export_everything.options(dedup=name).enqueue()
    for second in range(seconds):
        await ctx.progress(second, seconds)
        for _ in range(random.randint(2, 20)):
            number = random.randint(1, 60)
            await download.options(key=f"sub:{number}").enqueue(number, random.randint(1, 99))
        for _ in range(random.randint(0, 5)):
            await convert.options(key="disk:write").enqueue(f"episode-{random.randint(1, 999)}")
        if second % 5 == 0:
            ctx.log.info("people are here", seconds=second)
            await download_from_busy_server.enqueue()
            await send_letter.enqueue(random.choice(["ada", "grace", "lin", "nobody"]))
        await asyncio.sleep(1)
