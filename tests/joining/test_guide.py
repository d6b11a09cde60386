"""The examples of docs/guides/transactional_enqueue.md work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from taskyard import Yard
from taskyard.domain.task import new_task_id
from tests.servers.postgres import shared_url

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "transactional_enqueue.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def examples(url: str) -> dict[str, Any]:
    """The names that the code of the page makes."""
    names: dict[str, Any] = {"Yard": Yard, "text": text, "url": url}
    for block in BLOCKS:
        exec(block, names)
    return names


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A server where there is a table of orders; they are the test's own by their schema."""
    with psycopg.connect(shared_url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (number integer)")
        yield shared_url()
        connection.execute("DROP TABLE orders")


async def on_asyncpg(url: str, order: Callable[..., Any], number: int) -> None:
    connection = await asyncpg.connect(url)
    await order(connection, number)
    await connection.close()


async def on_psycopg(url: str, order: Callable[..., Any], number: int) -> None:
    with psycopg.connect(url) as connection:
        order(connection, number)


async def on_async_psycopg(url: str, order: Callable[..., Any], number: int) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await order(connection, number)


async def on_sqlalchemy(url: str, order: Callable[..., Any], number: int) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session:
        order(session, number)
    engine.dispose()


async def on_async_sqlalchemy(url: str, order: Callable[..., Any], number: int) -> None:
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    async with AsyncSession(engine) as session:
        await order(session, number)
    await engine.dispose()


@pytest.mark.spec("engine-27")
@pytest.mark.parametrize(
    "place", [on_asyncpg, on_psycopg, on_async_psycopg, on_sqlalchemy, on_async_sqlalchemy]
)
async def test_an_example_saves_the_order_and_its_task(
    postgres_url: str, place: Callable[..., Any]
) -> None:
    names = examples(f"{postgres_url}?namespace=test_{new_task_id()}")
    order = names[place.__name__.replace("on_", "order_with_")]
    async with names["yard"] as yard:
        await place(postgres_url, order, 7)

        assert [task.payload for task in await yard.find()] == ['{"order":7}']
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT number FROM orders").fetchall() == [(7,)]


@pytest.mark.spec("engine-27")
async def test_the_example_for_sqlite(tmp_path: Path) -> None:
    names = examples(f"sqlite:///{tmp_path / 'yard.db'}")
    async with names["yard"] as yard:
        db = apsw.Connection(str(tmp_path / "yard.db"))
        db.execute("CREATE TABLE orders (number)")
        names["order_with_apsw"](db, 7)

        assert [task.payload for task in await yard.find()] == ['{"order":7}']
        assert list(db.execute("SELECT number FROM orders")) == [(7,)]
        db.close()
