"""Programs with a connection of their own, one for each driver: they write, enqueue and commit."""

from __future__ import annotations

from typing import Any, Protocol

import apsw
import asyncpg
import psycopg
import sqlalchemy
from psycopg import rows
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from taskyard import Yard
from taskyard.domain.task import Enqueue, NewTask


class Caller(Protocol):
    async def begin(self) -> None: ...

    async def enqueue(self, yard: Yard, *tasks: NewTask) -> list[Enqueue]: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    async def close(self) -> None: ...


class Asyncpg:
    def __init__(self, url: str) -> None:
        self._url = url

    async def begin(self) -> None:
        self._connection: Any = await asyncpg.connect(self._url)
        self._transaction = self._connection.transaction()
        await self._transaction.start()

    async def enqueue(self, yard: Yard, *tasks: NewTask) -> list[Enqueue]:
        return await yard.enqueue_in(self._connection, *tasks)

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def close(self) -> None:
        await self._connection.close()


class AsyncpgPool(Asyncpg):
    """With a connection lent by a pool."""

    async def begin(self) -> None:
        self._pool = await asyncpg.create_pool(self._url, min_size=1, max_size=1)
        self._connection = await self._pool.acquire()
        self._transaction = self._connection.transaction()
        await self._transaction.start()

    async def close(self) -> None:
        await self._pool.release(self._connection)
        await self._pool.close()


class PsycopgAsync:
    def __init__(self, url: str) -> None:
        self._url = url

    async def begin(self) -> None:
        self._connection = await psycopg.AsyncConnection.connect(
            self._url, row_factory=rows.dict_row
        )

    async def enqueue(self, yard: Yard, *tasks: NewTask) -> list[Enqueue]:
        return await yard.enqueue_in(self._connection, *tasks)

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def close(self) -> None:
        await self._connection.close()


class SqlalchemyAsync:
    def __init__(self, url: str, driver: str) -> None:
        self._engine = create_async_engine(_for(driver, url))

    async def begin(self) -> None:
        self._connection: Any = await self._engine.connect()

    async def enqueue(self, yard: Yard, *tasks: NewTask) -> list[Enqueue]:
        return await yard.enqueue_in(self._connection, *tasks)

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def close(self) -> None:
        await self._connection.close()
        await self._engine.dispose()


class SqlalchemyAsyncSession(SqlalchemyAsync):
    async def begin(self) -> None:
        self._connection = AsyncSession(self._engine)


class Blocking:
    """What the callers that block have in common."""

    _connection: Any

    async def enqueue(self, yard: Yard, *tasks: NewTask) -> list[Enqueue]:
        return yard.enqueue_in_sync(self._connection, *tasks)

    async def commit(self) -> None:
        self._connection.commit()

    async def rollback(self) -> None:
        self._connection.rollback()

    async def close(self) -> None:
        self._connection.close()


class Psycopg(Blocking):
    def __init__(self, url: str) -> None:
        self._url = url

    async def begin(self) -> None:
        self._connection = psycopg.connect(
            self._url, row_factory=rows.dict_row, cursor_factory=psycopg.RawCursor
        )


class Sqlalchemy(Blocking):
    def __init__(self, url: str) -> None:
        self._engine = sqlalchemy.create_engine(_for("psycopg", url))

    async def begin(self) -> None:
        self._connection = self._engine.connect()

    async def close(self) -> None:
        self._connection.close()
        self._engine.dispose()


class SqlalchemySession(Sqlalchemy):
    async def begin(self) -> None:
        self._connection = Session(self._engine)


class Apsw(Blocking):
    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:///")

    async def begin(self) -> None:
        self._connection = apsw.Connection(self._path)
        self._connection.set_busy_timeout(10_000)
        # Whatever a caller makes of its rows must not matter.
        self._connection.row_trace = lambda _, row: {"row": row}
        self._connection.execute("BEGIN")

    async def commit(self) -> None:
        self._connection.execute("COMMIT")

    async def rollback(self) -> None:
        self._connection.execute("ROLLBACK")


class ApswAwaited(Apsw):
    async def enqueue(self, yard: Yard, *tasks: NewTask) -> list[Enqueue]:
        return await yard.enqueue_in(self._connection, *tasks)


def _for(driver: str, url: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)
