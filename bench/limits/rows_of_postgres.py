"""Writes the rows of Taskyard's enqueue to PostgreSQL with one plain statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg

from bench.limits.sample import Row, expressions, sample_rows
from taskyard.domain.task import new_task_id

TABLES = """
SELECT c.oid::regclass::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND n.nspname NOT IN ('pg_catalog', 'information_schema')
 ORDER BY c.oid
"""
COLUMNS = """
SELECT quote_ident(attname), format_type(atttypid, atttypmod) FROM pg_attribute
 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
   AND attgenerated = '' AND attidentity <> 'a'
 ORDER BY attnum
"""

MANY = "unnest($1::bigint[], $2::text[]) AS new (n, id)"
SINGLE = "(VALUES ($1::bigint, $2::text)) AS new (n, id)"


async def inserts(
    url: str, connection: asyncpg.Connection, group: int
) -> Callable[[int, int], Awaitable[None]]:
    """What saves so many tasks from a number on, in one statement and so in one commit."""
    statement = await connection.prepare(
        await _text(url, connection, SINGLE if group == 1 else MANY)
    )

    async def write_one(first: int, _: int) -> None:
        await statement.fetch(first, new_task_id())

    async def write_many(first: int, count: int) -> None:
        ids = [new_task_id() for _ in range(count)]
        await statement.fetch(range(first, first + count), ids)

    return write_one if group == 1 else write_many


async def _text(url: str, connection: asyncpg.Connection, source: str) -> str:
    columns: dict[str, list[tuple[str, str]]] = {}

    async def read() -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {}
        for (table,) in await connection.fetch(TABLES):
            found = await connection.fetch(COLUMNS, table)
            columns[table] = [(name, kind) for name, kind in found]
            cells = ", ".join(f"quote_nullable({name}::text)" for name, _ in columns[table])
            rows[table] = [
                tuple(row) for row in await connection.fetch(f"SELECT {cells} FROM {table}")
            ]
        return rows

    ids, tables = await sample_rows(url, read)
    parts = []
    for table, rows in tables.items():
        names = ", ".join(name for name, _ in columns[table])
        kinds = [kind for _, kind in columns[table]]
        cells = ", ".join(expressions(ids, rows, n="n", new_id="id", types=kinds))
        parts.append(f"INSERT INTO {table} ({names}) SELECT {cells} FROM {source}")
    *before, last = parts
    with_them = ", ".join(f"part{at} AS ({part})" for at, part in enumerate(before))
    return f"WITH {with_them} {last}" if before else last
