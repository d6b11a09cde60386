"""Real servers: emptied between runs, and counted while they are asked."""

from __future__ import annotations

import sys
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from bench.speed.places import place
from bench.speed.rounds import run_and_count
from bench.speed.sides import Measure, Role, Side

# Each enqueues with one request a task, says that it begins, and asks thrice for each task.
ON_POSTGRES = """
import asyncio, sys, asyncpg
async def main(url, count):
    connection = await asyncpg.connect(url)
    statement = await connection.prepare("SELECT $1::integer")
    for n in range(count): await statement.fetchval(n)
    print("begin", flush=True)
    await asyncio.sleep(4)
    for n in range(3 * count): await statement.fetchval(n)
    await connection.close()
asyncio.run(main(sys.argv[2], int(sys.argv[3])))
print('{"done": 1}')
"""
ON_REDIS = """
import sys, time
from redis import Redis
client, count = Redis.from_url(sys.argv[2]), int(sys.argv[3])
for n in range(count): client.incr("n")
print("begin", flush=True)
time.sleep(4)
for n in range(3 * count): client.eval("redis.call('INCR', 'n')", 0)
print('{"done": 1}')
"""


@pytest.mark.parametrize(("store", "text"), [("postgres", ON_POSTGRES), ("redis", ON_REDIS)])
async def test_what_a_server_is_asked_is_counted_from_the_beginning_of_processing(
    store: str, text: str, tmp_path: Path
) -> None:
    script = tmp_path / "asks.py"
    script.write_text(text)
    side = Side(
        name="asks",
        role=Role.PEER,
        measures=frozenset({Measure.PROCESS}),
        command=(sys.executable, str(script)),
        folder=tmp_path,
    )
    with place(store, tmp_path) as where:
        _, asked = await run_and_count(side, where, 200)

    assert asked is not None
    # Connections and the count itself ask a little too.
    assert asked.requests == pytest.approx(3, abs=0.2)
    if store == "redis":
        assert asked.commands == pytest.approx(6, abs=0.2)


async def test_a_database_is_new_for_every_run(tmp_path: Path) -> None:
    with place("postgres", tmp_path) as where:
        first = await where.empty()
        connection = await asyncpg.connect(first)  # and is not closed
        await connection.execute("CREATE TABLE mine ()")
        second = await where.empty()

        again = await asyncpg.connect(second)
        assert await again.fetchval("SELECT to_regclass('mine')") is None
        await again.close()
        with pytest.raises(asyncpg.InvalidCatalogNameError):
            await asyncpg.connect(first)
        assert where.version.startswith("PostgreSQL 1")


async def test_redis_is_empty_for_every_run_and_so_is_its_file(tmp_path: Path) -> None:
    with place("redis", tmp_path) as where:
        async with Redis.from_url(await where.empty()) as client:
            await client.set("mine", "x" * 100_000)
            await where.empty()

            assert await client.dbsize() == 0
            assert (await client.info("persistence"))["aof_current_size"] < 100_000
        assert where.version.startswith("Redis ")
