"""psycopg 3. The cursor is our own: the caller's may have other rows or other placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.store.postgres.adapters.placeholders import percent

TYPES = ("psycopg.Connection",)
ASYNC_TYPES = ("psycopg.AsyncConnection",)


def value(connection: Any, statement: str, args: Sequence[object]) -> Any:
    from psycopg import Cursor  # noqa: PLC0415 - whoever has such a connection has the driver
    from psycopg.rows import tuple_row  # noqa: PLC0415 - as above

    with Cursor(connection, row_factory=tuple_row) as cursor:
        row = cursor.execute(percent(statement), args).fetchone()
    return row[0] if row else None


async def async_value(connection: Any, statement: str, args: Sequence[object]) -> Any:
    from psycopg import AsyncCursor  # noqa: PLC0415 - as above
    from psycopg.rows import tuple_row  # noqa: PLC0415 - as above

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(percent(statement), args)
        row = await cursor.fetchone()
    return row[0] if row else None
