"""SQLite: a write-ahead log with every commit synced, sets in JSON, one transaction a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import apsw
import msgspec

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
from bench.limits.sample import Row, expressions, sample_rows
from taskyard.domain.task import new_task_id

SCHEMA = """
CREATE TABLE tasks (no INTEGER PRIMARY KEY, kind TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE ready (
    lane INTEGER, priority INTEGER, no INTEGER, attempt INTEGER NOT NULL, payload TEXT NOT NULL,
    PRIMARY KEY (lane, priority, no)) WITHOUT ROWID;
CREATE TABLE running (
    no INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, node INTEGER NOT NULL, started REAL NOT NULL);
CREATE TABLE done (
    no INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, state TEXT NOT NULL, result TEXT,
    started REAL NOT NULL, ended REAL NOT NULL);
"""

NUMBERS = "WITH RECURSIVE v (no) AS (SELECT ?1 UNION ALL SELECT no + 1 FROM v WHERE no < ?2)"
FILL_TASKS = f"{NUMBERS} INSERT INTO tasks SELECT no, 'noop', unixepoch('subsec') FROM v"
FILL_READY = "INSERT INTO ready SELECT 1, 5, no, 0, '[' || no || ']' FROM tasks WHERE no >= ?1"

ACCEPTED = """
json_each(?1) AS e CROSS JOIN running AS r ON r.no = e.value ->> 0 AND r.attempt = e.value ->> 1
"""
FINISH = f"""
INSERT INTO done
SELECT r.no, r.attempt, 'completed', e.value ->> 2, r.started, unixepoch('subsec') FROM {ACCEPTED}
"""
LET_GO = f"DELETE FROM running WHERE no IN (SELECT r.no FROM {ACCEPTED})"
CLAIM = """
SELECT json_group_array(json_array(no, attempt + 1, payload)), max(no)
  FROM (SELECT no, attempt, payload FROM ready WHERE lane = 1 ORDER BY priority, no LIMIT ?1)
"""
BEGIN = """
INSERT INTO running SELECT no, attempt + 1, 1, unixepoch('subsec')
  FROM (SELECT no, attempt FROM ready WHERE lane = 1 ORDER BY priority, no LIMIT ?1)
"""
LEAVE = "DELETE FROM ready WHERE lane = 1 AND priority = 5 AND no <= ?1"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Body]).decode


def connect(path: str) -> apsw.Connection:
    db = apsw.Connection(path)
    db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536")
    return db


async def measure(what: str, folder: str, count: int) -> Answer:
    if what in PROCESSING:
        return await measure_processing(connect(f"{folder}/bare.db"), count, what)
    if what == "idle":
        return await measure_idle(connect(f"{folder}/bare.db"), count)
    return await enqueue(await inserts(f"{folder}/yard.db"), count, GROUPS[what])


async def measure_processing(db: apsw.Connection, count: int, what: str) -> Answer:
    db.execute(SCHEMA)
    fill(db, 1, count)
    with ThreadPoolExecutor(1) as writer:
        return await process(turns(db, writer), count, what)


async def measure_idle(db: apsw.Connection, count: int) -> Answer:
    """All in one process, so that nothing is waited for but the disk and the writer's thread."""
    db.execute(SCHEMA)
    news = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def rung() -> None:
        await news.wait()
        news.clear()

    with ThreadPoolExecutor(1) as writer:

        async def add(no: int) -> None:
            await loop.run_in_executor(writer, fill, db, no, no)
            news.set()

        return await idle(add, turns(db, writer), rung, count)


def fill(db: apsw.Connection, first: int, last: int) -> None:
    with db:
        db.execute(FILL_TASKS, (first, last))
        db.execute(FILL_READY, (first,))


def turns(db: apsw.Connection, writer: ThreadPoolExecutor) -> Turn:
    def step(ends: Sequence[End], room: int) -> list[Body]:
        ended = _encode(ends).decode()
        db.execute("BEGIN IMMEDIATE")
        if ends:
            db.execute(FINISH, (ended,))
            assert db.changes() == len(ends), "an attempt was refused"
            db.execute(LET_GO, (ended,))
        [(bodies, last)] = db.execute(CLAIM, (room,))
        if last is not None:
            db.execute(BEGIN, (room,))
            db.execute(LEAVE, (last,))
        db.execute("COMMIT")
        return _decode(bodies)

    loop = asyncio.get_running_loop()
    return lambda ends, room: loop.run_in_executor(writer, step, ends, room)


async def inserts(path: str) -> Callable[[int, int], Awaitable[None]]:
    """What saves so many tasks from a number on in one transaction."""
    statements = await insert_statements(path)
    db = connect(path)

    async def write(first: int, count: int) -> None:
        rows = [(n, new_task_id()) for n in range(first, first + count)]
        db.execute("BEGIN IMMEDIATE")
        for statement in statements:
            db.executemany(statement, rows if "?2" in statement else [row[:1] for row in rows])
        db.execute("COMMIT")

    return write


async def insert_statements(path: str) -> list[str]:
    """One for each table that an enqueue writes a row to."""
    columns: dict[str, str] = {}

    async def read() -> dict[str, list[Row]]:
        db = apsw.Connection(path)
        rows: dict[str, list[Row]] = {}
        for table in texts(db, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
            names = [
                f'"{name}"' for name in texts(db, f"SELECT name FROM pragma_table_info('{table}')")
            ]
            columns[table] = ", ".join(names)
            cells = ", ".join(f"quote({name})" for name in names)
            rows[table] = [
                tuple(map(str, row)) for row in db.execute(f"SELECT {cells} FROM {table}")
            ]
        db.close()
        return rows

    ids, tables = await sample_rows(f"sqlite:///{path}", read)
    return [
        f"INSERT INTO {table} ({columns[table]}) "
        f"VALUES ({', '.join(expressions(ids, rows, n='?1', new_id='?2'))})"
        for table, rows in tables.items()
    ]


def texts(db: apsw.Connection, query: str) -> list[str]:
    return [str(text) for (text,) in db.execute(query).fetchall()]


if __name__ == "__main__":
    main(measure)
