"""A download manager: subscriptions, and a server that is not always well.

    python examples/downloads.py            # against a server of its own; ends by itself
    taskyard worker examples/downloads.py:yard

Two lanes keep traffic apart: `requires_cookie` goes one at a time, `no_cookie` two. The key
`sub:{id}` keeps a subscription from being worked on twice at once, in whatever lane and on whatever
machine; `disk:write` bounds who writes. Delays between retries are as in life, divided by PACE.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import httpx
from media_server import FEEDS, MediaServer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from taskyard import Context, Handle, Retry, State, Task, TaskKind, TaskQuery, Yard, gather

P = ParamSpec("P")
R = TypeVar("R")

SHOWN = __name__ == "__main__"  # run as a program, it shows itself
COOKIES = {"films", "talks"}  # subscriptions that need a login
PACE = 600.0 if SHOWN else float(os.environ.get("DOWNLOADS_PACE", "1"))
FOLDER = Path(tempfile.mkdtemp() if SHOWN else os.environ.get("DOWNLOADS_FOLDER", "downloads"))

yard = Yard(os.environ.get("DOWNLOADS_URL", f"sqlite:///{FOLDER / 'downloads.db'}"))
server = os.environ.get("DOWNLOADS_SERVER", "http://127.0.0.1:8080")


@yard.resource
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """One pool of connections for each worker."""
    limits = httpx.Limits(max_connections=8)
    patience = max(30 / PACE, 1.0)
    async with httpx.AsyncClient(base_url=server, limits=limits, timeout=patience) as client:
        yield client


@yard.task(timeout=60, retry=Retry.fixed(1, delay=5 / PACE), priority=8)
async def check(ctx: Context, subscription: str) -> bool:
    """Is there anything to get?"""
    return bool(await _feed(ctx, subscription))


@yard.task(timeout=300, retry=Retry.fixed(2, delay=30 / PACE))
async def scan(ctx: Context, subscription: str) -> int:
    """Start the download of each episode, and then what puts them together."""
    episodes = gather(
        *(
            _for(subscription, download).options(id=f"{subscription}/{episode}").new(episode)
            for episode in await _feed(ctx, subscription)
        )
    )
    last = _for(subscription, associate).options(depends_on=episodes, on_failure="run")
    await ctx.enqueue(*episodes, last.new(subscription))
    return len(episodes)


@yard.task(timeout=1800, retry=Retry.exponential(3, base=60 / PACE, cap=300 / PACE))
async def download(ctx: Context, episode: str) -> int:
    """Goes on where an earlier attempt stopped, as far as its checkpoint says."""
    client = await ctx.resource(http)
    got: int = ctx.saved or 0
    headers = {"Range": f"bytes={got}-"} if got else {}
    asked = client.stream("GET", f"/episodes/{episode}", headers=headers)
    async with _counted(ctx.id.partition("/")[0]), asked as answer:
        answer.raise_for_status()
        total = got + int(answer.headers["Content-Length"])
        with (FOLDER / episode).open("ab") as file:
            file.truncate(got)
            async for piece in answer.aiter_bytes():
                file.write(piece)
                got += len(piece)
                await ctx.progress(got, total)
                await ctx.checkpoint(got)
    return got


@yard.task(timeout=120, retry=Retry.fixed(2, delay=10 / PACE))
async def associate(ctx: Context, subscription: str) -> dict[str, str]:
    """Write down how each episode of the subscription has fared."""
    fared = {ending.id: str(ending.state) for ending in await ctx.dependencies()}
    (FOLDER / f"{subscription}.json").write_text(json.dumps(fared))
    return fared


most_at_once: Counter[str] = Counter()  # downloads of a subscription; 1, if all is well
_under_way: Counter[str] = Counter()


@asynccontextmanager
async def _counted(subscription: str) -> AsyncIterator[None]:
    _under_way[subscription] += 1
    most_at_once[subscription] = max(most_at_once[subscription], _under_way[subscription])
    try:
        yield
    finally:
        _under_way[subscription] -= 1


async def _feed(ctx: Context, subscription: str) -> list[str]:
    client = await ctx.resource(http)
    answer = await client.get(f"/feeds/{subscription}")
    episodes: list[str] = answer.raise_for_status().json()
    return episodes


def _for(subscription: str, kind: TaskKind[P, R]) -> TaskKind[P, R]:
    """In the lane of the subscription, and never two for it at once."""
    lane = "requires_cookie" if subscription in COOKIES else "no_cookie"
    return kind.options(lane=lane, keys=[f"sub:{subscription}", "disk:write"])


async def set_up() -> None:
    await yard.set_lane("requires_cookie", capacity=1)
    await yard.set_lane("no_cookie", capacity=2)
    await yard.limit_key("disk:write", 2)


async def refresh(subscription: str) -> Handle[int]:
    """Somebody asked for it: a scan, unless one is waiting or running already."""
    return await scan.options(priority=2, dedup=f"scan:{subscription}").enqueue(subscription)


async def unsubscribe(subscription: str) -> int:
    """Whatever is left to do for it is not done any more."""
    return await yard.cancel_all(key=f"sub:{subscription}", actor="system")


# --- the show ---

# How each mood of the server ends, and after how many charged runs.
EXPECTED = {
    "fine": (State.COMPLETED, 1),
    "busy": (State.COMPLETED, 3),
    "limited": (State.COMPLETED, 2),
    "slow": (State.COMPLETED, 1),
    "missing": (State.FAILED, 1),
    "silent": (State.FAILED, 4),
}
EPISODES = [f"{feed}/{episode}" for feed, episodes in FEEDS.items() for episode in episodes]
PATIENCE = 60.0
STYLES = {State.COMPLETED: "green", State.FAILED: "red", State.RUNNING: "blue"}


async def main() -> int:
    global server
    logging.getLogger("taskyard").setLevel(logging.CRITICAL)  # the table shows what fails
    async with MediaServer() as server, yard:
        await set_up()
        worker = yard.worker(slots=10)
        await worker.start()
        with Live(console=Console(), refresh_per_second=8) as live:
            for subscription in FEEDS:
                await refresh(subscription)
            again = await refresh("news")
            story = [f"a second scan of news: {'not needed' if again.duplicate else 'started'}"]
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(pause_and_resume(story), watch(live, story))
        return report(await episodes_now())


async def pause_and_resume(story: list[str]) -> None:
    """Somebody needs the line; the film goes on later from where it was."""
    film = yard.handle("films/slow-1")
    while not has_begun(await yard.store.get(film.id)):
        await asyncio.sleep(0.05)
    await film.pause()
    while (task := await film.task()).state is not State.PAUSED:
        await asyncio.sleep(0.05)
    story.append(f"films/slow-1 paused at {task.checkpoint} bytes; its lane is free for others")
    await asyncio.sleep(1)
    await film.resume()
    story.append("films/slow-1 resumed")


def has_begun(task: Task | None) -> bool:
    return task is not None and task.progress is not None and task.progress.done > 30_000


async def episodes_now() -> dict[str, Task]:
    found = await yard.find(TaskQuery(kind="download", limit=100))
    return {task.id: task for task in found}


async def watch(live: Live, story: list[str]) -> None:
    """Until everything has ended."""
    while True:
        tasks = await episodes_now()
        live.update(shown(tasks, story))
        counts = await yard.counts()
        ended = counts[State.COMPLETED] + counts[State.FAILED]
        if ended == sum(counts.values()) and len(tasks) == len(EPISODES):
            return
        await asyncio.sleep(0.1)


def shown(tasks: dict[str, Task], story: list[str]) -> Table:
    table = Table(title="Downloads", caption="\n".join(story), caption_justify="left")
    for column in ("episode", "lane", "state", "runs", "progress", "last trouble"):
        table.add_column(column, no_wrap=True)
    for name in EPISODES:
        task = tasks.get(name)
        if task is None:
            table.add_row(name, "", Text("-", "dim"), "", "", "")
            continue
        trouble = task.failures[-1].error if task.failures else None
        table.add_row(
            name,
            task.lane,
            Text(task.state, STYLES.get(task.state, "yellow")),
            str(task.charged),
            bar(task),
            Text(trouble.type if trouble else "", "dim"),
        )
    return table


def bar(task: Task) -> Text:
    said = task.progress
    share = said.done / said.total if said is not None and said.total else 0.0
    filled = round(20 * share)
    return Text.assemble(("━" * filled, "green"), ("━" * (20 - filled), "bright_black"))


def report(tasks: dict[str, Task]) -> int:
    """What had to happen, and whether it did."""
    wrong = [
        f"{name} is {task.state} after {task.charged} runs"
        for name, task in tasks.items()
        if (task.state, task.charged) != EXPECTED[name.partition("/")[2].partition("-")[0]]
    ]
    wrong += [f"{name} was downloaded {n} at once" for name, n in most_at_once.items() if n > 1]
    console = Console()
    console.print()
    for line in wrong:
        console.print(f"✗ {line}", style="red")
    if not wrong:
        console.print(
            "✓ 503 was tried again, 429 when it said so, 404 never, silence four times; no "
            "subscription was worked on twice at once; the paused film went on where it was",
            style="green",
        )
    return 1 if wrong else 0


if SHOWN:
    sys.exit(asyncio.run(main()))
