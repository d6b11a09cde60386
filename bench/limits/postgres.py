"""PostgreSQL: narrow tables, and one statement that finishes a batch and claims the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg

from bench.limits.loop import (
    GROUPS,
    PROCESSING,
    Answer,
    Body,
    End,
    Turn,
    enqueue,
    idle,
    main,
    process,
)
from bench.limits.rows_of_postgres import inserts

SCHEMA = """
CREATE TABLE tasks (no bigint PRIMARY KEY, kind text NOT NULL, created timestamptz NOT NULL);
CREATE TABLE ready (
    lane integer, priority smallint, no bigint, attempt integer NOT NULL, payload text NOT NULL,
    PRIMARY KEY (lane, priority, no));
CREATE TABLE running (
    no bigint PRIMARY KEY, attempt integer NOT NULL, node integer NOT NULL,
    started timestamptz NOT NULL);
CREATE TABLE done (
    no bigint PRIMARY KEY, attempt integer NOT NULL, state text NOT NULL, result text,
    started timestamptz NOT NULL, ended timestamptz NOT NULL);
"""

FILL = """
WITH filled AS (
    INSERT INTO tasks SELECT no, 'noop', now() FROM generate_series($1::bigint, $2) AS no
    RETURNING no)
INSERT INTO ready SELECT 1, 5, no, 0, '[' || no || ']' FROM filled
"""

# Rows are looked up in subqueries and deleted by their place (ctid): a join with unnest that is
# planned while `running` is empty turns quadratic. The scan of `ready` begins where the last claim
# ended ($5), and not at the dead entries of all before.
TURN = """
WITH ended AS (
    DELETE FROM running
     WHERE ctid = ANY (ARRAY(
               SELECT (SELECT r.ctid FROM running AS r
                        WHERE r.no = e.no AND r.attempt = e.attempt FOR UPDATE)
                 FROM unnest($1::bigint[], $2::integer[]) AS e (no, attempt)))
    RETURNING no, attempt, started
), kept AS (
    INSERT INTO done (no, attempt, state, result, started, ended)
    SELECT no, attempt, 'completed', e.result, started, clock_timestamp()
      FROM ended JOIN unnest($1::bigint[], $3::text[]) AS e (no, result) USING (no)
    RETURNING no
), claimed AS (
    DELETE FROM ready
     WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM ready
                WHERE lane = 1 AND (priority, no) > (5, $5::bigint)
                ORDER BY priority, no LIMIT $4 FOR UPDATE SKIP LOCKED))
    RETURNING no, attempt + 1 AS attempt, payload
), begun AS (
    INSERT INTO running SELECT no, attempt, 1, clock_timestamp() FROM claimed
)
SELECT array_agg(no), array_agg(attempt), array_agg(payload), (SELECT count(*) FROM kept)
  FROM claimed
"""


async def measure(what: str, url: str, count: int) -> Answer:
    connection = await asyncpg.connect(url)
    try:
        if what in PROCESSING:
            return await measure_processing(connection, count, what)
        if what == "idle":
            return await measure_idle(url, connection, count)
        group = GROUPS[what]
        return await enqueue(await inserts(url, connection, group), count, group)
    finally:
        await connection.close()


async def measure_processing(connection: asyncpg.Connection, count: int, what: str) -> Answer:
    await connection.execute(SCHEMA)
    await connection.execute(FILL, 1, count)
    return await process(await turns(connection), count, what)


async def measure_idle(url: str, connection: asyncpg.Connection, count: int) -> Answer:
    """The worker has a connection of its own, and hears of what is new by NOTIFY."""
    await connection.execute(SCHEMA)
    fill = await connection.prepare(FILL + "RETURNING pg_notify('new', '')")
    worker = await asyncpg.connect(url)
    news = asyncio.Event()
    await worker.add_listener("new", lambda *_: news.set())

    async def rung() -> None:
        await news.wait()
        news.clear()

    try:
        return await idle(lambda no: fill.fetch(no, no), await turns(worker), rung, count)
    finally:
        await worker.close()


async def turns(connection: asyncpg.Connection) -> Turn:
    statement = await connection.prepare(TURN)
    floor = 0

    async def turn(ends: Sequence[End], room: int) -> list[Body]:
        nonlocal floor
        nos, attempts, results = zip(*ends, strict=True) if ends else ((), (), ())
        row = await statement.fetchrow(nos, attempts, results, room, floor)
        assert row is not None
        claimed, tries, payloads, kept = row
        assert kept == len(ends), "an attempt was refused"
        if claimed is None:
            return []
        floor = max(claimed)
        return list(zip(claimed, tries, payloads, strict=True))

    return turn


if __name__ == "__main__":
    main(measure)
