"""A yard on PostgreSQL with a look behind it: connections whose transactions a test holds open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from taskyard.store.postgres.options import read_options
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.url import open_store
from tests.servers.postgres import shared_url
from tests.servers.schemas import schemas


class Yard:
    """Some stores on one schema, as so many processes have them."""

    def __init__(self, stores: list[PostgresStore], namespace: str) -> None:
        self.stores = stores
        self.store = stores[0]
        self._namespace = namespace

    def here(self, statement: str) -> str:
        return in_namespace(statement, self._namespace)

    async def value(self, statement: str, *args: object) -> Any:
        async with connected() as connection:
            return await connection.fetchval(self.here(statement), *args)


@asynccontextmanager
async def yard(stores: int = 1, *, unused: bool = False) -> AsyncIterator[Yard]:
    """On an empty schema; an unused one also has no pages of rows that were there before."""
    with schemas().unused() if unused else schemas().lent() as url:
        made: list[PostgresStore] = []
        for _ in range(stores):
            store = open_store(url)
            assert isinstance(store, PostgresStore)
            await store.open()
            made.append(store)
        try:
            yield Yard(made, read_options(url).namespace)
        finally:
            for store in made:
                await store.close()


@asynccontextmanager
async def connected() -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of a caller's."""
    connection = await asyncpg.connect(shared_url())
    try:
        yield connection
    finally:
        await connection.close()


async def blocked(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Return when the server says that what this connection does waits for a lock."""
    await _waits("pid = $1", connection.get_server_pid())


async def someone_waits(yard: Yard) -> None:
    """Return when some call to the yard waits for a lock."""
    await _waits("query LIKE $1", f"%{yard.here('taskyard.')}%")


async def _waits(which: str, value: object) -> None:
    statement = f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND {which}"
    async with connected() as watch, asyncio.timeout(30):
        found = None
        while not found:
            found = await watch.fetchval(statement, value)
