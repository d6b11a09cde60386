"""Tasks that leave traces everywhere, and a census of what a store holds."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import apsw
import asyncpg
from redis import Redis

from taskyard.domain.logs import Level, LogPage, NewLine
from taskyard.domain.retention import Retention
from taskyard.domain.task import Dedup, Progress, Until
from taskyard.store.port import Store
from taskyard.store.postgres.options import read_options
from taskyard.store.postgres.queries import schema_name
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.redis.store import RedisStore
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.places import Place
from tests.conformance.verbs import enqueued, failed, finish, node, succeeded
from tests.servers.redis import shared_url

NOTHING = timedelta(0)
AT_ONCE = Retention(completed=NOTHING, failed=NOTHING, cancelled=NOTHING, audit=NOTHING)
ENDS = 60
SIZES = {b"hash": "hlen", b"zset": "zcard", b"stream": "xlen"}


async def prune_all(store: Store, limit: int = 500) -> int:
    removed, mark = 0, None
    while True:
        step = await store.prune(AT_ONCE, actor="ann", after=mark, limit=limit)
        removed, mark = removed + step.tasks, step.mark
        if mark is None:
            return removed


async def live_and_end(store: Store) -> None:
    """Tasks with all that a task can have: they complete, fail twice, expire or are cancelled."""
    worker = await node(store, slots=ENDS)
    soon = await store.now()
    for number in range(ENDS // 4):
        await enqueued(
            store,
            payload=f'{{"{"x" * 500}":{number}}}',
            keys=("k", f"k{number}"),
            lane=f"lane {number % 3}",
            priority=1 + number % 10,
            group="g",
            dedup=Dedup(f"d{number}", Until.START if number % 2 else Until.END),
            trace=f"00-{number + 1:032x}-{number + 1:016x}-01",
        )
        task = await worker.claim_one()
        await store.report(task.hold, Progress(1, 2, "half"))
        said = NewLine(1, 0, Level.INFO, "half"), NewLine(2, 0, Level.INFO, "done")
        await store.append_logs([LogPage(task.hold, said)])
        await finish(store, succeeded(task, '"done"'))
        await enqueued(store, keys=("k",), max_charged=2)
        for _ in range(2):
            await finish(store, failed(await worker.claim_one()))
        await enqueued(store, keys=(f"k{number}",), deadline=soon)
        await store.expire()
        stopped = await enqueued(store, delay=60, dedup=Dedup(f"e{number}"))
        await store.cancel(stopped, actor="ann")
    assert not await worker.claim(1)
    await store.retire(worker.lease)


async def census(store: Store, place: Place) -> dict[str, int]:
    """How much there is in every table, or in every key."""
    if isinstance(store, SqliteStore):
        return _rows_of_file(store.path)
    if isinstance(store, PostgresStore):
        return await _rows_of_schema(place.url)
    assert isinstance(store, RedisStore)
    with Redis.from_url(shared_url()) as client:
        keys = sorted(client.scan_iter(f"{store._wording.prefix}*", count=1000))
        return {key.decode(): getattr(client, SIZES[client.type(key)])(key) for key in keys}


def _rows_of_file(path: str) -> dict[str, int]:
    with closing(apsw.Connection(path)) as db:
        names = [str(name) for (name,) in db.execute("SELECT name FROM sqlite_master")]
        tables = [name for name in names if _is_table(db, name)]
        return {name: one(db, f"SELECT count(*) FROM {name}") for name in tables}


def _is_table(db: apsw.Connection, name: str) -> bool:
    kind = "SELECT type = 'table' AND name NOT LIKE 'sqlite_%' FROM sqlite_master WHERE name = ?"
    return bool(one(db, kind, name))


def one(db: apsw.Connection, sql: str, *args: str) -> int:
    [(value,)] = db.execute(sql, args)
    assert isinstance(value, int)
    return value


async def _rows_of_schema(url: str) -> dict[str, int]:
    options = read_options(url)
    schema = schema_name(options.namespace)
    connection: Any = await asyncpg.connect(options.dsn)
    try:
        tables = await connection.fetch(
            "SELECT tablename AS name FROM pg_tables WHERE schemaname = $1"
            " AND tablename <> 'floors' ORDER BY 1",  # one a queue, and as claims have raised them
            schema,
        )
        names = [row["name"] for row in tables]
        # Entries of what has completed or was pruned stay until somebody sums them up.
        await connection.execute(f"SELECT {schema}.sum_up_completed()")
        return {n: await connection.fetchval(f"SELECT count(*) FROM {schema}.{n}") for n in names}
    finally:
        await connection.close()
