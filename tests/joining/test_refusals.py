"""Connections that cannot be used are refused, with the reason."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import apsw
import asyncpg
import psycopg
import pytest
import sqlalchemy

from taskyard import Yard
from taskyard.domain.errors import ConfigurationError, StoreUnavailable
from taskyard.domain.lane import LaneChange
from tests.conformance.verbs import complete, enqueued, new, node, running
from tests.servers.postgres import shared_url


@pytest.mark.spec("engine-27")
async def test_redis_has_no_transaction_to_join() -> None:
    yard = Yard("redis://user:secret@127.0.0.1")

    with pytest.raises(ConfigurationError, match=r"needs postgresql:// or sqlite://") as told:
        await yard.enqueue_in(object(), new())

    assert "secret" not in str(told.value)


@pytest.mark.spec("engine-27", "engine-28")
async def test_pythons_own_sqlite3_is_refused(sqlite_yard: Yard, tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "other.db")  # not the yard's: two copies of SQLite on one file

    with pytest.raises(ConfigurationError, match=r"second copy of SQLite .* apsw\.Connection"):
        await sqlite_yard.enqueue_in(db, new())

    db.close()


async def test_another_file_is_refused(sqlite_yard: Yard, tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "other.db"))
    db.execute("CREATE TABLE some (thing)")

    with pytest.raises(
        ConfigurationError, match=r"open on .*other\.db, but the yard is .*yard\.db"
    ):
        sqlite_yard.enqueue_in_sync(db, new())

    db.close()


async def test_a_yard_in_memory_cannot_be_joined() -> None:
    db = apsw.Connection(":memory:")

    with pytest.raises(ConfigurationError, match="in memory"):
        Yard("sqlite://:memory:").enqueue_in_sync(db, new())

    db.close()


async def test_a_file_without_a_yard_is_told(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "empty.db"))
    db.execute("CREATE TABLE some (thing)")

    with pytest.raises(StoreUnavailable, match="taskyard migrate"):
        Yard(f"sqlite:///{tmp_path / 'empty.db'}").enqueue_in_sync(db, new())

    db.close()


async def test_without_a_transaction_it_is_its_own(sqlite_yard: Yard, tmp_path: Path) -> None:
    db, task = apsw.Connection(str(tmp_path / "yard.db")), new()

    sqlite_yard.enqueue_in_sync(db, task)

    assert not db.in_transaction
    assert (await sqlite_yard.get(task.id)).id == task.id
    db.close()


async def test_an_unknown_connection_is_refused(postgres_yard: Yard) -> None:
    with pytest.raises(ConfigurationError, match=r"builtins\.object is no connection"):
        await postgres_yard.enqueue_in(object(), new())


async def test_a_connection_to_be_awaited_is_not_for_blocking_calls(postgres_yard: Yard) -> None:
    connection = await asyncpg.connect(shared_url())

    with pytest.raises(ConfigurationError, match="use enqueue_in"):
        postgres_yard.enqueue_in_sync(connection, new())

    await connection.close()


async def test_sqlalchemy_must_lead_to_postgresql(postgres_yard: Yard) -> None:
    engine = sqlalchemy.create_engine("sqlite://")

    with (
        engine.connect() as connection,
        pytest.raises(ConfigurationError, match="leads to sqlite"),
    ):
        postgres_yard.enqueue_in_sync(connection, new())

    engine.dispose()


async def test_a_missing_yard_leaves_the_transaction_usable() -> None:
    yard = Yard(f"{shared_url()}?namespace=nowhere")

    with psycopg.connect(shared_url()) as connection:
        with pytest.raises(StoreUnavailable, match="taskyard migrate"):
            yard.enqueue_in_sync(connection, new())
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.spec("engine-27")
async def test_an_open_transaction_keeps_nobody_from_claiming(postgres_yard: Yard) -> None:
    store = postgres_yard.store
    await store.set_lane("narrow", LaneChange(capacity=1), actor="ann")
    worker = await node(store)
    held = await running(store, worker, keys=("k",))
    other = await enqueued(store, lane="narrow", keys=("free",))
    late = new(keys=("k",))
    with psycopg.connect(shared_url()) as connection:
        postgres_yard.enqueue_in_sync(connection, late)

        assert await worker.claim_ids() == [other]
        await complete(store, held)

    assert await worker.claim_ids() == [late.id]
