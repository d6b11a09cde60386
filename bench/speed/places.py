"""Where sides run: a real server or a folder, emptied before each run, and what it was asked."""

from __future__ import annotations

import asyncio
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec
from redis.asyncio import Redis

from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

# A statement that PostgreSQL writes to its log; those of several lines have this once.
STATEMENT = re.compile(r"LOG:  (?:execute [^:]+|statement): ")


class Asked(msgspec.Struct, frozen=True):
    """What a store was asked since it started.

    `requests` come from clients: statements of PostgreSQL, reads from a socket by Redis (a pipeline
    is one). `commands` of Redis are those inside scripts and pipelines too.
    """

    requests: float = 0
    commands: float | None = None

    def since(self, earlier: Asked, tasks: int) -> Asked:
        """For each of so many tasks."""
        requests = (self.requests - earlier.requests) / tasks
        if self.commands is None or earlier.commands is None:
            return Asked(requests)
        return Asked(requests, (self.commands - earlier.commands) / tasks)


class Place(ABC):
    version: str = ""

    @abstractmethod
    async def empty(self) -> str:
        """Forget what the last run left behind; the URL for the next."""

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """While inside, `asked` is right; a run that is timed need not pay for it."""
        yield

    async def asked(self) -> Asked | None:
        """None where nobody counts."""
        return None


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "store"
        self.version = f"SQLite {apsw.sqlite_lib_version()}"

    async def empty(self) -> str:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        return str(self._folder)


class PostgresPlace(Place):
    """A new database for each run."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._number = 0

    async def empty(self) -> str:
        async with self._connection() as connection:
            self.version = str(await connection.fetchval("SELECT version()")).split(" on ")[0]
            await connection.execute(f"DROP DATABASE IF EXISTS bench{self._number} WITH (FORCE)")
            self._number += 1
            await connection.execute(f"CREATE DATABASE bench{self._number}")
            await connection.execute("CHECKPOINT")  # not in the next run's time
        return self._server.url.rpartition("/")[0] + f"/bench{self._number}"

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        await self._set_log("all")
        try:
            yield
        finally:
            await self._set_log("none")

    async def asked(self) -> Asked:
        log = await asyncio.to_thread(lambda: self._server.log)
        return Asked(len(STATEMENT.findall(log)))

    async def _set_log(self, which: str) -> None:
        async with self._connection() as connection:
            await connection.execute(f"ALTER SYSTEM SET log_statement = '{which}'")
            await connection.execute("SELECT pg_reload_conf()")
        # Only a backend that was told by its server knows.
        until = asyncio.get_running_loop().time() + 10
        while asyncio.get_running_loop().time() < until:
            async with self._connection() as connection:
                if await connection.fetchval("SHOW log_statement") == which:
                    return
        raise RuntimeError("PostgreSQL did not read its settings again")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self._server.url)
        try:
            yield connection
        finally:
            await connection.close()


class RedisPlace(Place):
    def __init__(self, server: RedisServer) -> None:
        self._server = server

    async def empty(self) -> str:
        async with Redis(port=self._server.port) as client:
            found: dict[str, Any] = await client.info("server")
            self.version = f"Redis {found['redis_version']}"
            await client.flushall()
            await client.script_flush()
            await self._rewrite(client)
        return f"{self._server.url}/0"

    async def _rewrite(self, client: Any) -> None:
        """An append-only file with nothing in it, so that no run pays for an earlier one's."""
        await self._rewritten(client)
        await client.bgrewriteaof()
        state = await self._rewritten(client)
        if state["aof_last_bgrewrite_status"] != "ok":
            raise RuntimeError("Redis could not rewrite its append-only file")

    async def _rewritten(self, client: Any) -> dict[str, Any]:
        """When no rewrite is under way."""
        while True:
            state: dict[str, Any] = await client.info("persistence")
            if not state["aof_rewrite_in_progress"]:
                return state
            await asyncio.sleep(0.01)

    async def asked(self) -> Asked:
        async with Redis(port=self._server.port) as client:
            stats: dict[str, Any] = await client.info("stats")
        return Asked(stats["total_reads_processed"], stats["total_commands_processed"])


@contextmanager
def place(store: str, folder: Path) -> Iterator[Place]:
    """While inside; a server is our own and goes with its data."""
    match store:
        case "sqlite":
            yield SqlitePlace(folder)
        case "postgres":
            postgres = PostgresServer()
            postgres.start()
            try:
                yield PostgresPlace(postgres)
            finally:
                postgres.remove()
        case "redis":
            redis = RedisServer()
            redis.start()
            try:
                yield RedisPlace(redis)
            finally:
                redis.remove()
        case _:
            raise ValueError(f"there is no store {store}")
