"""The connections of one store, and how a statement is put through one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import asyncpg
import msgspec

from taskyard.domain.errors import ConfigurationError, StoreUnavailable
from taskyard.store.postgres.errors import COLLISIONS, Raised, is_lost, translate
from taskyard.store.postgres.migrate import migrate
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.queries import in_namespace, statements

T = TypeVar("T")

CONNECT_SECONDS = 10.0
CALL_SECONDS = 60.0
MOST_CONNECTIONS = 5
OLDEST_SERVER = 140000
REPEATS = 3

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # not generic when it runs


async def connect(options: Options) -> Connection:
    """One connection of its own; the driver's errors are the caller's to translate."""
    return await asyncpg.connect(
        options.dsn,
        timeout=CONNECT_SECONDS,
        command_timeout=CALL_SECONDS,
        statement_cache_size=0 if options.pgbouncer else 100,
    )


def refuse_old_server(connection: Connection, place: str) -> None:
    version = connection.get_server_version()
    if version.major * 10000 < OLDEST_SERVER:
        raise ConfigurationError(
            f"{place} is PostgreSQL {version.major}; "
            f"Taskyard needs {OLDEST_SERVER // 10000} or newer"
        )


@asynccontextmanager
async def looking(options: Options) -> AsyncIterator[Connection]:
    """A connection for one look at a server that may not be ours yet."""
    try:
        connection = await connect(options)
        try:
            yield connection
        finally:
            await connection.close()
    except Raised as error:
        raise translate(error, options.place) from error


async def _leave_as_it_is(_: object) -> None:
    """No statement of ours leaves anything behind in its session, so there is nothing to reset."""


class Database:
    """A small pool. Every call is one statement, unless it asks for a transaction."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.place = options.place
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._closed = False  # by hand: then only an open by hand opens it again
        self._opening = asyncio.Lock()
        self._sql = statements(options.namespace)

    @property
    def is_open(self) -> bool:
        return self._pool is not None

    async def open(self) -> None:
        async with self._opening:
            if self._pool is not None:
                return
            pool = asyncpg.create_pool(
                self.options.dsn,
                min_size=0,  # otherwise the pool itself complains loudly while a server is away
                max_size=MOST_CONNECTIONS,
                timeout=CONNECT_SECONDS,
                command_timeout=CALL_SECONDS,
                statement_cache_size=0 if self.options.pgbouncer else 100,
                reset=_leave_as_it_is,
            )
            try:
                await pool
                async with pool.acquire() as connection:
                    refuse_old_server(connection, self.place)  # type: ignore[arg-type]
                    await migrate(connection, self.options)  # type: ignore[arg-type]
            except Raised as error:
                pool.terminate()
                raise translate(error, self.place) from error
            except BaseException:
                pool.terminate()
                raise
            self._pool, self._closed = pool, False

    async def close(self) -> None:
        async with self._opening:
            pool, self._pool, self._closed = self._pool, None, True
            if pool is not None:
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        await pool.close()
                except (*Raised,):
                    pool.terminate()

    async def row(self, statement: str, *args: object) -> Any:
        """The one row a verb's function answers."""
        text = self.here(statement)
        return await self._repeat(lambda c: c.fetchrow(text, *args))

    async def value(self, statement: str, *args: object) -> Any:
        text = self.here(statement)
        return await self._repeat(lambda c: c.fetchval(text, *args))

    def here(self, statement: str) -> str:
        return in_namespace(statement, self.options.namespace)

    async def read(self, kind: type[T], name: str, *args: object) -> T:
        """A statement of sql/ that answers one JSON text; repeated if its connection was lost."""
        statement = self._sql[name]
        try:
            text = await self._repeat(lambda c: c.fetchval(statement, *args))
        except StoreUnavailable as error:
            if error.__cause__ is None or not is_lost(error.__cause__):
                raise
            text = await self._repeat(lambda c: c.fetchval(statement, *args))
        return decode(kind, text)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Several statements in one step."""
        pool = await self._opened()
        try:
            async with pool.acquire() as connection, connection.transaction():
                yield connection  # type: ignore[misc]
        except Raised as error:
            raise translate(error, self.place) from error

    async def _opened(self) -> asyncpg.Pool[asyncpg.Record]:
        if self._pool is None and self._closed:
            raise StoreUnavailable(f"the store {self.options.place} is closed")
        if self._pool is None:
            await self.open()
        assert self._pool is not None
        return self._pool

    async def _repeat(self, call: Any) -> Any:
        """Put a call through; one that collided with another is made again."""
        pool = await self._opened()
        for turn in range(REPEATS):
            try:
                async with pool.acquire() as connection:
                    return await call(connection)
            except COLLISIONS as error:
                if turn == REPEATS - 1:
                    raise translate(error, self.place) from error
            except (*Raised, ValueError) as error:
                raise translate(error, self.place) from error
        raise AssertionError("unreachable")


def decode(kind: type[T], text: str | None) -> T:
    answer: T = msgspec.json.decode(text or "null", type=kind)
    return answer
