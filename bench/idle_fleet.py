"""What ten idle workers ask of their server, and what each of them costs.

PostgreSQL writes every statement to its log here, and they are counted there. Redis counts by
itself; a command that a script runs inside the server counts like one that a client sends.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from redis import Redis

from bench.figure import Figure, Stage, median
from bench.process import cpu_seconds, resident_mb, wake_ups
from bench.worker_process import passing, worker_process
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

SPEC = ("engine-20", "engine-26")
BOUND = (
    "Ten idle workers put fewer than 20 statements a second to PostgreSQL, and make Redis run "
    "fewer than 50 commands a second in all; each takes under 1 % of a core."
)

WORKERS = 10
SETTLE_SECONDS = 15  # past the first beat, for which the driver asks more than for the next
IDLE_SECONDS = 30
MOST_STATEMENTS = 20.0
MOST_COMMANDS = 50.0
MOST_CPU = 1.0

# What a client sends; everything else that Redis counts was run by a script.
SENT = frozenset({"evalsha", "eval", "ping"})
STATEMENT = re.compile(r"LOG:  (?:execute [^:]+|statement): (.*)")
SPACE = re.compile(r"\s+")


async def measure(stage: Stage) -> list[Figure]:
    return [*await on_postgres(stage), *await on_redis(stage)]


async def on_postgres(stage: Stage) -> list[Figure]:
    server = PostgresServer("--log_statement=all", "--log_line_prefix=")
    server.start()
    try:
        asked, costs = await watch(stage, "PostgreSQL", server.url, lambda: statements(server.log))
    finally:
        server.remove()
    return [
        Figure(
            name="PostgreSQL: statements",
            value=asked.total() / IDLE_SECONDS,
            unit="/s",
            at_most=MOST_STATEMENTS,
            detail=shares(asked),
        ),
        *costs,
    ]


async def on_redis(stage: Stage) -> list[Figure]:
    server = RedisServer()
    server.start()
    try:
        with Redis(port=server.port) as client:
            run, costs = await watch(stage, "Redis", server.url, lambda: commands(client))
    finally:
        server.remove()
    sent = Counter({name: count for name, count in run.items() if name in SENT})
    return [
        Figure(
            name="Redis: commands in all",
            value=run.total() / IDLE_SECONDS,
            unit="/s",
            at_most=MOST_COMMANDS,
            detail=shares(run),
        ),
        Figure(
            name="Redis: commands sent by clients",
            value=sent.total() / IDLE_SECONDS,
            unit="/s",
            detail=shares(sent),
        ),
        *costs,
    ]


async def watch(
    stage: Stage, where: str, url: str, count: Callable[[], Counter[str]]
) -> tuple[Counter[str], list[Figure]]:
    """What was asked of the server while ten workers were idle, and what they cost."""
    async with AsyncExitStack() as workers:
        pids = [await workers.enter_async_context(worker_process(url)) for _ in range(WORKERS)]
        await passing(stage, f"{where}: settling", SETTLE_SECONDS)
        cpu, wakes = sum(map(cpu_seconds, pids)), sum(map(wake_ups, pids))
        before = await asyncio.to_thread(count)
        await passing(stage, f"{where}: idle", IDLE_SECONDS)
        asked = await asyncio.to_thread(count) - before
        cpu, wakes = sum(map(cpu_seconds, pids)) - cpu, sum(map(wake_ups, pids)) - wakes
        memory = median([resident_mb(pid) for pid in pids])
    return asked, [
        Figure(
            name=f"{where}: CPU of a worker",
            value=100 * cpu / IDLE_SECONDS / WORKERS,
            unit="% of a core",
            at_most=MOST_CPU,
            detail=f"{wakes / IDLE_SECONDS / WORKERS:.1f} wake-ups a second; RSS {memory:.0f} MB",
        )
    ]


def statements(log: str) -> Counter[str]:
    """By their first words, as many as tell them apart."""
    return Counter(
        SPACE.sub(" ", text).split("(")[0].strip()[:40] for text in STATEMENT.findall(log)
    )


def commands(client: Any) -> Counter[str]:
    """Without those of this bench itself."""
    counted = {
        name.removeprefix("cmdstat_"): figures["calls"]
        for name, figures in client.info("commandstats").items()
    }
    return Counter({name: calls for name, calls in counted.items() if name != "info"})


def shares(asked: Counter[str]) -> str:
    return "; ".join(
        f"{name} {count / IDLE_SECONDS:.1f}/s" for name, count in asked.most_common(12)
    )
