"""Opening a yard on PostgreSQL: who migrates, whose functions stay, how long a call may take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from taskyard.domain.errors import ConfigurationError, SchemaMismatch, StoreUnavailable
from taskyard.domain.state import State
from taskyard.domain.task import new_task_id
from taskyard.store.port import ClaimRequest, Store
from taskyard.store.postgres import connection, listen, migrate
from taskyard.store.postgres.connection import MOST_CONNECTIONS, Database
from taskyard.store.postgres.options import read_options
from taskyard.store.postgres.queries import in_namespace, migrations
from taskyard.store.postgres.turn import turn_args
from taskyard.store.url import allowing_migration, open_store
from tests.conformance.verbs import enqueued, finish, node, running, seen, succeeded
from tests.crash.proxy import Proxy
from tests.servers.postgres import shared_url
from tests.servers.urls import fresh_url

PATIENCE = 30.0
GRANTS = """GRANT USAGE ON SCHEMA {schema} TO {user};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user};
GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {user}"""


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fresh_url("postgres", tmp_path_factory.getbasetemp())


def schema_at(url: str) -> str:
    return f"taskyard_{url.rpartition('namespace=')[2]}"


@asynccontextmanager
async def admin() -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(shared_url())
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def make(url: str, **meta: str) -> None:
    """A yard, with something else in its book-keeping."""
    async with opened(url):
        pass
    async with admin() as connection:
        for name, value in meta.items():
            await connection.execute(
                f"UPDATE {schema_at(url)}.meta SET value = $2 WHERE name = $1", name, value
            )


async def kept(url: str, name: str) -> object:
    async with admin() as connection:
        statement = f"SELECT value FROM {schema_at(url)}.meta WHERE name = $1"
        return await connection.fetchval(statement, name)


@pytest.mark.spec("engine-29")
@pytest.mark.parametrize(
    ("meta", "found"),
    [
        ({"schema": "0"}, "has no yard yet"),
        ({"functions": "others", "release": "0.0.1"}, "has the functions of an older release"),
    ],
)
async def test_who_may_not_migrate_says_who_can(url: str, meta: dict[str, str], found: str) -> None:
    await make(url, **meta)
    store = open_store(f"{url}&migrate=0")
    with pytest.raises(SchemaMismatch, match=f"{found}.*migrate=0.*taskyard migrate"):
        await store.open()
    await store.close()

    assert await kept(url, next(iter(meta))) == next(iter(meta.values()))


@pytest.mark.spec("engine-29")
async def test_who_may_not_migrate_makes_no_yard(url: str) -> None:
    store = open_store(f"{url}&migrate=0")
    with pytest.raises(SchemaMismatch, match="has no yard yet"):
        await store.open()
    await store.close()

    assert not await store.exists()


@pytest.mark.spec("engine-29")
async def test_a_user_who_may_make_nothing_works_in_a_yard_made_by_another(url: str) -> None:
    await make(url)
    schema, user = schema_at(url), f"user_{schema_at(url)}"
    async with admin() as connection:
        await connection.execute(f"CREATE ROLE {user} LOGIN")
        await connection.execute(GRANTS.format(schema=schema, user=user))
    try:
        async with opened(f"{url}&migrate=0".replace("postgres@", f"{user}@")) as store:
            worker = await node(store)
            await finish(store, succeeded(await running(store, worker)))
            assert not worker.beat().lost
            assert await worker.holds() == set()
            await store.set_key_rule("k", 1, actor="ann")
            await store.retire(worker.lease)
            assert (await store.counts())[State.COMPLETED] == 1
    finally:
        async with admin() as connection:
            await connection.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


@pytest.mark.spec("engine-29")
@pytest.mark.parametrize(
    ("release", "replaced"), [("0.0.1", True), ("99.0", False), ("99.0rc1", False)]
)
async def test_only_functions_of_an_older_release_are_replaced(
    url: str, release: str, replaced: bool
) -> None:
    """A newer one stands beside this one while a fleet is brought up to it, worker by worker."""
    await make(url, functions="others", release=release)
    async with opened(url) as store:
        await enqueued(store)
        assert (await store.schema()).current

    assert (await kept(url, "functions") != "others") == replaced
    assert (await kept(url, "release") != release) == replaced


@pytest.mark.spec("engine-29")
@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("postgresql://h/d?migrate=0", "postgresql://h/d"),
        ("postgresql://h/d?migrate=0&namespace=a", "postgresql://h/d?namespace=a"),
        ("postgresql://h/d?namespace=a&migrate=0", "postgresql://h/d?namespace=a"),
        ("postgresql://h/d?namespace=a", "postgresql://h/d?namespace=a"),
        ("sqlite:///yard.db", "sqlite:///yard.db"),
    ],
)
def test_whoever_is_told_to_migrate_may(url: str, allowed: str) -> None:
    assert allowing_migration(url) == allowed


@pytest.fixture
def line() -> Iterator[Proxy]:
    port = int(shared_url().rpartition(":")[2].partition("/")[0])
    proxy = Proxy(port)
    yield proxy
    proxy.let_pass()
    proxy.stop()


@pytest.mark.spec("engine-29")
async def test_a_call_into_a_black_hole_ends_after_the_time_in_the_url(
    url: str, line: Proxy
) -> None:
    async with opened(f"{line.url(url)}&timeout=2") as store:
        await enqueued(store)
        line.hold()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(StoreUnavailable, match=r"in time.*timeout="):
                await enqueued(store)
            other = open_store(f"{line.url(url)}&timeout=2")
            with pytest.raises(StoreUnavailable, match="in time"):
                await other.open()
        line.let_pass()

        await enqueued(store)


@pytest.mark.spec("engine-29")
async def test_waiting_for_a_connection_is_a_part_of_the_time_in_the_url(url: str) -> None:
    """One after the other, these would take ten times as long."""
    seconds, callers = 3.0, 10 * MOST_CONNECTIONS
    async with opened(f"{url}&timeout={seconds}") as store, admin() as blocker:
        task_id = await enqueued(store)
        async with blocker.transaction():
            await blocker.execute(f"SELECT {schema_at(url)}.lock_room()")
            calls = [store.cancel(task_id, actor="ann") for _ in range(callers)]
            async with asyncio.timeout(8 * seconds):
                answers = await asyncio.gather(*calls, return_exceptions=True)

        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        await store.cancel(task_id, actor="ann")


@pytest.mark.spec("engine-29")
async def test_a_migration_keeps_nobody_waiting_behind_an_open_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store, admin() as caller, admin() as watcher:
        waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE $1 = ANY (pg_blocking_pids(pid)))"
        await enqueued(store)
        async with asyncio.timeout(PATIENCE):
            async with caller.transaction():
                # As somebody does who enqueues in a transaction that lasts.
                await caller.execute(f"LOCK TABLE {schema_at(url)}.tasks IN ROW EXCLUSIVE MODE")
                monkeypatch.setattr(migrate, "migrations", with_one_more)
                newer = open_store(url)
                migrating = asyncio.create_task(newer.open())
                while True:
                    if await watcher.fetchval(waits, caller.get_server_pid()):
                        break
                    await asyncio.sleep(0.01)
                await enqueued(store)
                assert not migrating.done()
            await migrating
            await newer.close()

        assert await kept(url, "schema") == str(with_one_more("taskyard")[-1][0])


@pytest.mark.spec("engine-29")
async def test_a_yard_of_the_schema_before_is_brought_up_with_what_waits_in_it(url: str) -> None:
    async with opened(url) as store:
        worker = await node(store)
        holder = await running(store, worker, keys=("k",))
        waiting = await enqueued(store, keys=("k",))
        version = (await store.schema()).newest
    async with admin() as connection:  # as the release before has left it
        function = f"{schema_at(url)}.take_from_stream"
        await connection.execute(f"DROP FUNCTION {function}")
        await connection.execute(
            f"CREATE FUNCTION {function}(bigint, bigint, bigint, integer, integer, "
            f"{schema_at(url)}.stretch[], boolean) RETURNS boolean LANGUAGE sql AS 'SELECT false'"
        )
    await make(url, schema=str(version - 1), functions="of an older release")
    async with opened(url) as store:
        assert (await store.schema()).current
        worker.store = store
        assert await worker.claim_ids(5) == []
        await finish(store, succeeded(holder))
        assert await worker.claim_ids(5) == [waiting]


@pytest.mark.spec("engine-29")
async def test_workers_of_the_release_before_are_answered_in_full(url: str) -> None:
    async with opened(url) as store:
        worker = await node(store)
        first = [await running(store, worker) for _ in range(2)]
        waiting = [await enqueued(store) for _ in range(5)]
        request = ClaimRequest(lease=worker.lease, number=worker.number + 1, room=2, ahead=2)
        args = turn_args(0, [succeeded(task) for task in first], request)
        async with admin() as connection:
            places = ", ".join(f"${at}" for at in range(1, len(args) + 1))
            query = f"SELECT * FROM {schema_at(url)}.turn({places})"
            row = dict(await connection.fetchrow(query, *args) or {})

        assert sorted(row["o_accepted"]) == [task.no for task in first]
        assert (row["o_accepted_attempt"], row["o_accepted_lease"]) == ([1, 1], [worker.lease] * 2)
        assert row["o_id"] == waiting[:4]
        assert row["o_ahead"] == row["o_no"][2:]
        lists = ("route", "lane", "attempt", "charged", "max_charged", "timeout", "losses")
        assert {len(row[f"o_{name}"]) for name in lists} == {4}
        assert [(await seen(store, task.id)).state for task in first] == [State.COMPLETED] * 2


@pytest.mark.spec("engine-29")
async def test_a_connection_is_kept_at_hand_but_not_when_it_was_idle_for_long(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(read_options(url))
    await database.open()
    who = "SELECT pg_backend_pid()"
    first = await database.value(who)
    assert await database.value(who) == first
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.0)
    second = await database.value(who)
    assert second != first
    await database.close()


@pytest.mark.spec("engine-29")
async def test_a_connection_that_was_cut_while_at_hand_is_replaced(url: str) -> None:
    async with opened(url) as store, admin() as watcher, asyncio.timeout(PATIENCE):
        await enqueued(store)
        name = f"%{schema_at(url)}.%"
        theirs = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE $1"
        assert await watcher.fetch(f"SELECT pg_terminate_backend(pid) {theirs}", name)
        while await watcher.fetchval(f"SELECT count(*) {theirs}", name):
            pass
        assert await store.counts() == dict.fromkeys(State, 0) | {State.QUEUED: 1}


@pytest.mark.spec("engine-29")
async def test_whoever_waits_for_a_connection_gets_the_next_that_is_free(url: str) -> None:
    database = Database(read_options(url))
    await database.open()
    async with asyncio.timeout(PATIENCE):
        calls = [database.value("SELECT pg_backend_pid()") for _ in range(10 * MOST_CONNECTIONS)]
        pids = await asyncio.gather(*calls)
    assert len(set(pids)) <= MOST_CONNECTIONS
    await database.close()


@pytest.mark.spec("engine-29")
async def test_turns_keep_their_connection_and_others_take_it_only_when_there_is_no_more(
    url: str,
) -> None:
    database = Database(read_options(url))
    await database.open()
    who, slowly = "SELECT pg_backend_pid()", "SELECT pg_backend_pid() FROM pg_sleep(0.05)"
    async with asyncio.timeout(PATIENCE):
        (mine,) = await database.turn_row(who)
        for _ in range(3):
            assert await database.value(who) != mine
            assert await database.turn_row(who) == (mine,)
        pids = await asyncio.gather(*(database.value(slowly) for _ in range(MOST_CONNECTIONS)))
    assert len(set(pids)) == MOST_CONNECTIONS
    assert mine in pids
    await database.close()


def with_one_more(namespace: str) -> list[tuple[int, str]]:
    known = migrations(namespace)
    change = "ALTER TABLE taskyard.tasks ADD COLUMN more text"
    return [*known, (known[-1][0] + 1, in_namespace(change, namespace))]


@pytest.mark.spec("engine-29")
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_cannot_keep_every_text_is_refused(encoding: str) -> None:
    name = f"test_{new_task_id()}"
    async with admin() as connection:
        await connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
            "TEMPLATE template0"
        )
        try:
            store = open_store(f"{shared_url().rpartition('/')[0]}/{name}")
            with pytest.raises(ConfigurationError, match=rf"as {encoding};.*--encoding=UTF8"):
                await store.open()
            await store.close()
        finally:
            await connection.execute(f"DROP DATABASE {name}")


@pytest.mark.spec("engine-23", "engine-29")
async def test_hints_are_heard_again_after_an_error_that_nobody_foresaw(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = asyncio.Event()
    refusals = [RuntimeError("unforeseen")]

    async def connect(*args: Any, **options: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return await connection.connect(*args, **options)

    monkeypatch.setattr(listen, "connect", connect)
    async with opened(url) as store, asyncio.timeout(PATIENCE):
        stop = store.listen(lambda _: heard.set())
        await heard.wait()
        stop()

    assert refusals == []


@pytest.mark.spec("engine-24", "engine-29")
async def test_a_store_closes_while_bodies_have_taken_all_threads_of_the_loop(url: str) -> None:
    loop = asyncio.get_running_loop()
    over = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        loop.set_default_executor(pool)
        body = loop.run_in_executor(None, over.wait)
        try:
            async with asyncio.timeout(PATIENCE):
                async with opened(url) as store:
                    worker = await node(store)
                    worker.beat()
            assert not body.done()
        finally:
            over.set()
            await body
