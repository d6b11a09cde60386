"""Databases and callers whose transactions are above READ COMMITTED."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg
import msgspec
import pytest

from taskyard.domain.errors import ConfigurationError
from taskyard.domain.task import Enqueued, new_task_id
from taskyard.store.port import ClaimRequest, Store
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.postgres.turn import TURN, turn_args
from taskyard.store.url import open_store
from tests.conformance.verbs import Worker, enqueued, finish, new, node, succeeded
from tests.servers.pooler import Pooler
from tests.servers.postgres import PostgresServer

HANGS = 30.0
Level = Literal["repeatable_read", "serializable"]
LEVELS: tuple[Level, ...] = ("repeatable_read", "serializable")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One where transactions are the strictest there are, unless somebody says otherwise."""
    server = PostgresServer("--default_transaction_isolation=serializable")
    server.start()
    yield server
    server.remove()


class Place(msgspec.Struct):
    """A yard on that server, and a connection beside it that says what it wants itself."""

    store: PostgresStore
    namespace: str
    beside: asyncpg.Connection[asyncpg.Record]

    def here(self, statement: str) -> str:
        return in_namespace(statement, self.namespace)

    async def claim_beside(self, worker: Worker) -> None:
        """A claim whose transaction stays open."""
        worker.number += 1
        request = ClaimRequest(lease=worker.lease, number=worker.number, room=1)
        await self.beside.fetchrow(self.here(TURN), *turn_args(0, (), request))

    async def until_one_waits(self) -> None:
        """For the transaction that is open beside."""
        pid = self.beside.get_server_pid()
        waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE $1 = ANY (pg_blocking_pids(pid)))"
        async with asyncio.timeout(HANGS):
            while True:
                if await self.beside.fetchval(waits, pid):
                    return
                await asyncio.sleep(0.01)


@pytest.fixture
async def place(server: PostgresServer) -> AsyncIterator[Place]:
    namespace = f"test_{new_task_id()}"
    store = open_store(f"{server.url}?namespace={namespace}")
    assert isinstance(store, PostgresStore)
    await store.open()
    beside = await asyncpg.connect(server.url)
    yield Place(store, namespace, beside)
    await beside.close()
    await store.close()


@asynccontextmanager
async def caller(
    server: PostgresServer, level: Level
) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A transaction that sees nothing new any more, committed at the end."""
    connection = await asyncpg.connect(server.url)
    try:
        async with connection.transaction(isolation=level):
            await connection.fetchval("SELECT count(*) FROM pg_class")
            yield connection
    finally:
        await connection.close()


@pytest.mark.spec("engine-8", "engine-29")
async def test_who_waited_for_a_claim_sees_that_the_key_is_held(place: Place) -> None:
    one, other = await node(place.store, kinds=("x",)), await node(place.store, "b", kinds=("y",))
    await place.store.enqueue([new("x", keys=("k",)), new("y", keys=("k",))])
    async with asyncio.timeout(HANGS):
        async with place.beside.transaction(isolation="read_committed"):
            await place.claim_beside(one)
            claiming = asyncio.create_task(other.claim(1))
            await place.until_one_waits()

        assert await claiming == []
    [key] = await place.store.keys()
    assert len(key.holders) == 1


@pytest.mark.spec("engine-10", "engine-29")
async def test_who_ends_a_task_sees_who_was_parked_while_it_waited(place: Place) -> None:
    one, other = await node(place.store, kinds=("x",)), await node(place.store, "b", kinds=("y",))
    await enqueued(place.store, "x", keys=("k",))
    holder = await one.claim_one()
    await enqueued(place.store, "y")  # the kind is known from now on
    await other.claim_one()
    async with place.beside.transaction(isolation="read_committed"):
        await place.beside.execute(place.here("SELECT taskyard.lock_room()"))
        waiter = await enqueued(place.store, "y", keys=("k",))  # ready: it could not be parked

    async with asyncio.timeout(HANGS):
        async with place.beside.transaction(isolation="read_committed"):
            await place.claim_beside(other)  # parks it
            ending = asyncio.create_task(finish(place.store, succeeded(holder)))
            await place.until_one_waits()
        await ending

        assert await other.claim_ids(1) == [waiter]


@pytest.mark.spec("engine-29")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_verb_in_another_isolation_is_refused_in_plain_words(
    server: PostgresServer, place: Place, level: Level
) -> None:
    await enqueued(place.store)
    found = level.replace("_", " ").upper()
    with pytest.raises(asyncpg.PostgresError, match=f"READ COMMITTED, and this one is {found}"):
        async with caller(server, level) as connection:
            await connection.execute(place.here("SELECT taskyard.cancel(0, 'x', 'ann')"))


@pytest.mark.spec("engine-29")
async def test_through_a_pooler_such_a_server_is_refused(
    server: PostgresServer, place: Place
) -> None:
    with Pooler(server.port, 2) as pooler:
        store = open_store(pooler.url(f"?namespace={place.namespace}"))
        with pytest.raises(ConfigurationError, match=r"SERIALIZABLE.*pooler.*READ COMMITTED"):
            await store.open()
        await store.close()


@pytest.mark.spec("engine-29")
async def test_a_server_behind_a_pooler_that_changes_its_mind_is_told_so() -> None:
    own = PostgresServer()
    own.start()
    try:
        with Pooler(own.port, 1) as pooler:
            store = open_store(pooler.url(""))
            await store.open()
            task_id = await enqueued(store)
            admin = await asyncpg.connect(own.url)
            await admin.execute(
                "ALTER SYSTEM SET default_transaction_isolation = 'repeatable read'"
            )
            await admin.execute("SELECT pg_reload_conf()")
            await _until_strict(store)
            with pytest.raises(ConfigurationError, match=r"READ COMMITTED.*REPEATABLE READ"):
                await store.cancel(task_id, actor="ann")
            await admin.close()
            await store.close()
    finally:
        own.remove()


async def _until_strict(store: Store) -> None:
    async with asyncio.timeout(HANGS):
        while True:
            checks = {check.name: check for check in await store.diagnose()}
            if not checks["isolation"].ok:
                return
            await asyncio.sleep(0.01)


@pytest.mark.spec("engine-29")
async def test_the_doctor_sees_what_the_store_made_of_it(place: Place) -> None:
    checks = {check.name: check for check in await place.store.diagnose()}
    assert checks["isolation"].ok


# --- callers ---


@pytest.mark.spec("engine-29")
@pytest.mark.parametrize("level", LEVELS)
async def test_a_kind_that_is_new_in_an_old_snapshot_is_served_by_who_came_since(
    server: PostgresServer, place: Place, level: Level
) -> None:
    await enqueued(place.store, "known")
    async with caller(server, level) as connection:
        worker = await node(place.store, kinds=("fresh",))
        [first] = await place.store.enqueue_in(connection, [new("fresh")])
    second = await enqueued(place.store, "fresh")
    await place.store.promote()

    assert isinstance(first, Enqueued)
    assert await worker.claim_ids(5) == [first.id, second]


@pytest.mark.spec("engine-29")
async def test_looking_for_unserved_kinds_waits_for_no_open_transaction(
    server: PostgresServer, place: Place
) -> None:
    due = await enqueued(place.store, "known", delay=0.0)
    async with caller(server, "repeatable_read") as connection:
        worker = await node(place.store, kinds=("known", "fresh"))
        await place.store.enqueue_in(connection, [new("fresh")])
        async with asyncio.timeout(HANGS):
            await place.store.promote()
            assert await worker.claim_ids(5) == [due]
