"""asyncpg: a connection, or one lent by a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TYPES = ("asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy")


async def value(connection: Any, statement: str, args: Sequence[object]) -> Any:
    return await connection.fetchval(statement, *args)
