"""A pooler of transactions between store and server, as pgbouncer is in transaction mode."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from taskyard import State, Yard
from taskyard.domain.errors import StoreError
from taskyard.domain.outcome import Finished
from taskyard.domain.task import new_task_id
from taskyard.store.port import Hint, Store
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, node, running, succeeded
from tests.servers.pooler import Pooler
from tests.servers.postgres import PostgresServer

PATIENCE = 30.0
SESSIONS = 3
LEFT = """SELECT pg_backend_pid() AS pid, current_setting('jit'),
    (SELECT count(*) FROM pg_prepared_statements),
    (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def pooler(server: PostgresServer) -> Iterator[Pooler]:
    with Pooler(server.port, SESSIONS) as pooler:
        yield pooler


def fresh() -> str:
    return f"?namespace=test_{new_task_id()}"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def checks(store: Store) -> dict[str, str]:
    return {check.name: check.text for check in await store.diagnose()}


@pytest.mark.spec("engine-29")
async def test_every_verb_does_without_a_session_of_its_own(pooler: Pooler) -> None:
    async with opened(pooler.url(fresh())) as store:
        worker = await node(store)
        for _ in range(2 * SESSIONS):
            task = await running(store, worker)
            assert not worker.beat().lost
            assert await worker.holds()
            assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]
        await asyncio.gather(*(store.counts() for _ in range(10 * SESSIONS)))
        assert "pooler" in await checks(store)


@pytest.mark.spec("engine-29")
async def test_a_store_that_takes_the_sessions_for_its_own_fails(pooler: Pooler) -> None:
    """What shows that the test above would notice."""
    async with opened(pooler.url(f"{fresh()}&pgbouncer=0")) as store:

        async def count() -> None:
            for _ in range(2 * SESSIONS):
                await store.counts()

        with pytest.raises(StoreError, match="prepared statement"):
            await count()


@pytest.mark.spec("engine-29")
async def test_nothing_is_left_behind_in_the_sessions_of_others(pooler: Pooler) -> None:
    async with opened(pooler.url(fresh())) as store:
        stop = store.listen(lambda _: None)
        worker = await node(store)
        await finish(store, succeeded(await running(store, worker)))
        assert not worker.beat().lost
        assert await worker.holds() == set()
        stop()

    other = await asyncpg.connect(pooler.url(), statement_cache_size=0)
    left = {row["pid"]: row for _ in range(2 * SESSIONS) for row in await other.fetch(LEFT)}
    await other.close()
    assert len(left) == SESSIONS
    for row in left.values():
        assert tuple(row)[1:] == ("on", 0, 0, 0)


@pytest.mark.spec("engine-29", "engine-23")
async def test_without_hints_changes_are_found_by_polling(
    pooler: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    yard = Yard(pooler.url(fresh()))

    @yard.task()
    async def double(number: int) -> int:
        return 2 * number

    with caplog.at_level(logging.INFO, "taskyard.store.postgres"):
        async with asyncio.timeout(2 * PATIENCE), yard:
            await yard.worker().start()
            results = [await (await double.enqueue(number)).result() for number in range(2)]

    assert results == [0, 2]
    assert "hints are not heard: this way leads through a pooler" in caplog.text
    assert not any(b"LISTEN" in message for message in pooler.said)


@pytest.mark.spec("engine-29", "engine-23")
async def test_hints_are_heard_at_the_server_itself_if_the_url_names_it(
    server: PostgresServer, pooler: Pooler
) -> None:
    place = fresh()
    heard = asyncio.Event()

    def wake(_: Hint) -> None:
        heard.set()

    there = f"{place}&listen=127.0.0.1:{server.port}"
    async with opened(pooler.url(there)) as store, opened(pooler.url(place)) as other:
        stop = store.listen(wake)
        async with asyncio.timeout(PATIENCE):
            await heard.wait()  # it says so when it listens
            heard.clear()
            await enqueued(other)
            await heard.wait()
        stop()
        assert "listen=" in (await checks(store))["pooler"]
        assert not any(b"LISTEN" in message for message in pooler.said)


@pytest.mark.spec("engine-29")
async def test_a_server_without_a_pooler_is_not_taken_for_one(server: PostgresServer) -> None:
    async with opened(server.url + fresh()) as store:
        assert "pooler" not in await checks(store)
