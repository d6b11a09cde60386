"""The bare loops on the real stores, and that what they write is what Taskyard writes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import apsw
import asyncpg
import pytest
from redis.asyncio import Redis

from bench.ground import STORES
from bench.limits.sample import expressions
from bench.speed.places import Place, place
from bench.speed.sides import ROOT
from taskyard import Yard
from taskyard.domain.state import State


async def bare(store: str, what: str, url: str, count: int, *special: str) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"bench.limits.{store}", what, url, str(count), "1", *special),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    answer: dict[str, float] = json.loads(said.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """Of each store one, for all tests here."""
    with ExitStack() as stack:
        yield cache(lambda s: stack.enter_context(place(s, tmp_path_factory.mktemp(s))))


@pytest.mark.parametrize("special", [(), ("lane",)])
@pytest.mark.parametrize("store", STORES)
async def test_every_task_is_processed_once_and_kept(
    store: str, special: tuple[str, ...], places: Callable[[str], Place]
) -> None:
    url = await places(store).empty()

    assert (await bare(store, "process", url, 1_234, *special))["done"] > 0  # no whole batches

    assert await left(store, url) == (1_234, 0)


async def left(store: str, url: str) -> tuple[int, int]:
    """How many are done, and how many still run."""
    query = "SELECT (SELECT count(*) FROM done), (SELECT count(*) FROM running)"
    match store:
        case "sqlite":
            [(done, running)] = apsw.Connection(f"{url}/bare.db").execute(query)
        case "postgres":
            connection = await asyncpg.connect(url)
            row = await connection.fetchrow(query)
            assert row is not None
            done, running = row
            await connection.close()
        case _:
            client: Any
            async with Redis.from_url(url) as client:
                done, running = await client.hlen("done"), await client.hlen("running")
    return int(done), int(running)


@pytest.mark.parametrize("store", STORES)
async def test_an_idle_worker_picks_every_task_up(
    store: str, places: Callable[[str], Place]
) -> None:
    answer = await bare(store, "idle", await places(store).empty(), 10)

    assert 0 < answer["p50_ms"] <= answer["p99_ms"]


@pytest.mark.parametrize("what", ["one", "at_once", "bulk"])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_what_is_written_directly_is_what_taskyard_reads(
    store: str, what: str, places: Callable[[str], Place]
) -> None:
    count = 2_000 if what == "bulk" else 200
    url = await places(store).empty()

    assert (await bare(store, what, url, count))["rate"] > 0

    async with Yard(f"sqlite:///{url}/yard.db" if store == "sqlite" else url) as yard:
        # One to warm up and three to learn from were enqueued the usual way.
        assert (await yard.counts())[State.QUEUED] == 4 + count


async def test_redis_gets_as_many_entries_as_from_taskyard(
    places: Callable[[str], Place],
) -> None:
    url = await places("redis").empty()
    yard = Yard(url)

    @yard.task()
    async def noop(n: int) -> None: ...

    async with yard:
        await yard.enqueue(*(noop.new(n) for n in range(204)))
    wanted = await sizes(url)
    url = await places("redis").empty()
    await bare("redis", "at_once", url, 200)

    assert await sizes(url) == wanted


async def sizes(url: str) -> dict[bytes, int]:
    """Of the keys that have something of each task."""
    found: dict[bytes, int] = {}
    client: Any
    async with Redis.from_url(url) as client:
        async for key in client.scan_iter():
            kind = (await client.type(key)).decode()
            if kind in ("hash", "zset"):
                size = await (client.hlen(key) if kind == "hash" else client.zcard(key))
                found |= {key: size} if size >= 200 else {}
    return found


def test_a_column_is_a_constant_an_id_or_a_counter() -> None:
    rows = [("'x'", "7", "'a'", "NULL"), ("'x'", "8", "'b'", "NULL"), ("'x'", "9", "'c'", "NULL")]

    assert expressions("abc", rows, n="?1", new_id="?2") == ["'x'", "(9 + 1 + ?1)", "?2", "NULL"]
    with pytest.raises(ValueError, match="what is this column"):
        expressions("abc", [("1",), ("5",), ("2",)], n="?1", new_id="?2")
