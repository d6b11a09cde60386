"""The connections of one store, and how a statement is put through one of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar

import asyncpg
import msgspec

from taskyard.domain.errors import ConfigurationError, StoreBusy, StoreUnavailable
from taskyard.store.postgres.errors import (
    COLLISIONS,
    Raised,
    is_lost,
    translate,
    translate_connecting,
)
from taskyard.store.postgres.isolation import refuse_other_isolation, use_read_committed
from taskyard.store.postgres.migrate import migrate
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.pooler import is_pooled, learn_types
from taskyard.store.postgres.queries import in_namespace, statements
from taskyard.store.postgres.watch import Watch

T = TypeVar("T")

CONNECT_SECONDS = 10.0
ENCODING = "UTF8"
IDLE_SECONDS = 300.0  # then something on the way may have forgotten the connection
MOST_CONNECTIONS = 5
OLDEST_SERVER = 14
RELEASE_SECONDS = 1.0  # how long a call that was given up may take to end; then it is cut off
REPEATS = 3
STATEMENTS_KEPT = 100

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # not generic when it runs
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Lent: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"


class Sort(Enum):
    """Of calls: each has a connection at hand."""

    TURN = auto()
    OTHER = auto()


async def connect(options: Options, *, dsn: str | None = None) -> Connection:
    """One connection of its own, which keeps no statement prepared unless it is asked to.

    The driver's errors are the caller's to translate.
    """
    return await asyncpg.connect(
        dsn or options.dsn,
        timeout=min(CONNECT_SECONDS, options.timeout),
        command_timeout=options.timeout,
        statement_cache_size=0,
    )


@asynccontextmanager
async def looking(options: Options) -> AsyncIterator[Connection]:
    """A connection for one look at a server that may not be ours yet."""
    try:
        connection = await connect(options)
    except Raised as error:
        raise translate_connecting(error, options.place) from error
    try:
        _refuse_old_server(connection, options.place)
        _refuse_other_encoding(connection, options.place)
        yield connection
    except Raised as error:
        raise translate(error, options.place) from error
    finally:
        await _hang_up(connection)


def _refuse_old_server(connection: Connection, place: str) -> None:
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        raise ConfigurationError(
            f"{place} is PostgreSQL {version.major}; Taskyard needs {OLDEST_SERVER} or newer"
        )


def _refuse_other_encoding(connection: Connection, place: str) -> None:
    """Another one cannot keep every text, or does not know what it keeps."""
    encoding = getattr(connection.get_settings(), "server_encoding", ENCODING)
    if encoding != ENCODING:
        raise ConfigurationError(
            f"{place} keeps text as {encoding}; Taskyard needs a database in {ENCODING}: "
            f"createdb --encoding={ENCODING} --template=template0"
        )


async def _hang_up(connection: Connection) -> None:
    """Politely, unless nobody is there to take leave of."""
    try:
        await connection.close(timeout=CONNECT_SECONDS)
    except Raised:
        connection.terminate()


async def _leave_as_it_is(_: object) -> None:
    """No verb leaves anything behind in its session, so there is nothing to reset."""


class Database:
    """A small pool. A call is one statement, so whoever is stopped in one holds no lock."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.place = options.place
        self._pool: Pool | None = None
        self._closed = False  # by hand: then only an open by hand opens it again
        self._opening = asyncio.Lock()
        # Kept for the next call of its sort, and since when, by the loop's clock.
        self._at_hand: dict[Sort, tuple[Lent, float]] = {}
        self._waiting = 0  # calls that wait for one of the pool
        self._borrowed = 0  # of the pool: lent, at hand, or waited for
        self._watch = Watch(options.timeout)
        self._sql = statements(options.namespace)

    @property
    def is_open(self) -> bool:
        return self._pool is not None

    async def open(self) -> None:
        async with self._opening:
            if self._pool is not None:
                return
            async with looking(self.options) as connection:
                pooled = await is_pooled(connection, self.options)
                if pooled:
                    await refuse_other_isolation(connection, self.place)
                await migrate(connection, self.options)
            pool = asyncpg.create_pool(
                self.options.dsn,
                min_size=0,  # otherwise the pool itself complains loudly while a server is away
                max_size=MOST_CONNECTIONS,
                max_inactive_connection_lifetime=IDLE_SECONDS,
                timeout=min(CONNECT_SECONDS, self.options.timeout),
                statement_cache_size=0 if pooled else STATEMENTS_KEPT,
                init=learn_types if pooled else use_read_committed,
                reset=_leave_as_it_is,
            )
            await pool  # connects to nothing yet
            self._pool, self._closed, self._borrowed = pool, False, 0

    async def close(self) -> None:
        async with self._opening:
            pool, self._pool, self._closed = self._pool, None, True
            at_hand, self._at_hand = self._at_hand, {}
            if pool is not None:
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        for connection, _ in at_hand.values():
                            await pool.release(connection)
                        await pool.close()
                except Raised:
                    pool.terminate()

    async def row(self, statement: str, *args: object) -> Any:
        """The one row a verb's function answers."""
        text = self.here(statement)
        return await self._repeat(lambda c: c.fetchrow(text, *args))

    async def turn_row(self, statement: str, *args: object) -> Any:
        """As `row`, for turns: they have a connection that nobody else takes without need, for a
        connection makes its plans of all that a turn does only once."""
        text = self.here(statement)
        return await self._repeat(lambda c: c.fetchrow(text, *args), Sort.TURN)

    async def row_in_time(self, statement: str, *args: object) -> Any:
        """As `row`. Whoever holds the room gives a row that a caller's transaction has locked up
        soon, so that others come through: that is tried again for as long as one call may take."""
        try:
            async with asyncio.timeout(self.options.timeout):
                while True:
                    try:
                        return await self.row(statement, *args)
                    except StoreBusy as error:
                        if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                            raise
                    await asyncio.sleep(random.uniform(0.05, 0.15))
        except TimeoutError as error:
            raise translate(error, self.place) from error

    async def rows(self, statement: str, *args: object) -> list[Any]:
        text = self.here(statement)
        found: list[Any] = await self._repeat(lambda c: c.fetch(text, *args))
        return found

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
    async def connection(self) -> AsyncIterator[Connection]:
        """One of the pool, for several questions; all must be answered in the time of one call."""
        pool = await self._opened()
        try:
            async with asyncio.timeout(self.options.timeout), self._lent(pool) as connection:
                yield connection
        except Raised as error:
            raise translate(error, self.place) from error

    async def _opened(self) -> Pool:
        if self._pool is None and self._closed:
            raise StoreUnavailable(f"the store {self.options.place} is closed")
        if self._pool is None:
            await self.open()
        assert self._pool is not None
        return self._pool

    async def _repeat(self, call: Any, sort: Sort = Sort.OTHER) -> Any:
        """Put a call through in its time, which waiting for a connection is a part of.

        One that collided with another is made again. With a connection at hand there is nothing to
        wait for but the answer, which needs no timer of its own.
        """
        pool = self._pool or await self._opened()
        until = asyncio.get_running_loop().time() + self.options.timeout
        try:
            connection, repeats = self._at_once(sort), REPEATS
            if connection is not None:
                repeats -= 1
                with suppress(*COLLISIONS), self._watch.call():
                    return await self._through(pool, connection, call, sort)
            async with asyncio.timeout_at(until):
                for _ in range(repeats - 1):
                    with suppress(*COLLISIONS):
                        return await self._through(pool, await self._taken(pool, sort), call, sort)
                return await self._through(pool, await self._taken(pool, sort), call, sort)
        except (*Raised, ValueError) as error:
            raise translate(error, self.place) from error

    async def _through(self, pool: Pool, connection: Lent, call: Any, sort: Sort) -> Any:
        try:
            answer = await call(connection)
        except BaseException:
            await self._give_back(pool, connection)
            raise
        if not self._keep(pool, connection, sort):
            await self._give_back(pool, connection)
        return answer

    @asynccontextmanager
    async def _lent(self, pool: Pool, sort: Sort = Sort.OTHER) -> AsyncIterator[Connection]:
        connection = await self._taken(pool, sort)
        try:
            yield connection  # type: ignore[misc]  # a proxy with all that a connection has
        except BaseException:
            await self._give_back(pool, connection)
            raise
        if not self._keep(pool, connection, sort):
            await self._give_back(pool, connection)

    def _keep(self, pool: Pool, connection: Lent, sort: Sort) -> bool:
        """One of each sort is kept at hand: to go through the pool takes half as long as a small
        call."""
        if sort in self._at_hand or self._waiting or self._pool is not pool:
            return False
        self._at_hand[sort] = connection, asyncio.get_running_loop().time()
        return True

    def _at_once(self, sort: Sort) -> Lent | None:
        """The one at hand, if it is as good as new."""
        connection, put_down_at = self._at_hand.get(sort, (None, 0.0))
        if connection is None or _is_lost(connection):
            return None
        if asyncio.get_running_loop().time() - put_down_at >= IDLE_SECONDS:
            return None
        del self._at_hand[sort]
        return connection

    async def _taken(self, pool: Pool, sort: Sort) -> Lent:
        if sort not in self._at_hand and self._borrowed >= MOST_CONNECTIONS:
            sort = next(iter(self._at_hand), sort)  # better than to wait for one
        connection = self._at_once(sort)
        if connection is not None:
            return connection
        at_hand = self._at_hand.pop(sort, None)
        if at_hand is not None:  # it is no good any more
            with suppress(asyncpg.InterfaceError):
                at_hand[0].terminate()
            await self._give_back(pool, at_hand[0])
        self._waiting += 1
        self._borrowed += 1
        try:
            return await pool.acquire()
        except BaseException:
            self._count_back(pool)
            raise
        finally:
            self._waiting -= 1

    async def _give_back(self, pool: Pool, connection: Lent) -> None:
        self._count_back(pool)
        await pool.release(connection, timeout=RELEASE_SECONDS)

    def _count_back(self, pool: Pool) -> None:
        if self._pool is pool:  # another begins to count anew
            self._borrowed -= 1


def _is_lost(connection: Lent) -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:  # it broke, and the pool has taken it back
        return True


def decode(kind: type[T], text: str | None) -> T:
    answer: T = msgspec.json.decode(text or "null", type=kind)
    return answer
