from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from taskyard import Yard
from tests.joining import callers
from tests.joining.callers import Caller
from tests.servers.postgres import shared_url
from tests.servers.schemas import schemas

ON_POSTGRES: dict[str, Callable[[str], Caller]] = {
    "asyncpg": callers.Asyncpg,
    "asyncpg-pool": callers.AsyncpgPool,
    "psycopg": callers.Psycopg,
    "psycopg-async": callers.PsycopgAsync,
    "sqlalchemy": callers.Sqlalchemy,
    "sqlalchemy-session": callers.SqlalchemySession,
    "sqlalchemy-asyncpg": lambda url: callers.SqlalchemyAsync(url, "asyncpg"),
    "sqlalchemy-psycopg": lambda url: callers.SqlalchemyAsync(url, "psycopg"),
    "sqlalchemy-asyncpg-session": lambda url: callers.SqlalchemyAsyncSession(url, "asyncpg"),
}
ON_SQLITE: dict[str, Callable[[str], Caller]] = {
    "apsw": callers.Apsw,
    "apsw-awaited": callers.ApswAwaited,
}


@pytest.fixture
async def postgres_yard() -> AsyncIterator[Yard]:
    with schemas().lent() as url:
        async with Yard(url) as yard:
            yield yard


@pytest.fixture
async def sqlite_yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard


@pytest.fixture(params=[*ON_POSTGRES, *ON_SQLITE])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def yard(driver: str, request: pytest.FixtureRequest) -> Yard:
    fixture = "postgres_yard" if driver in ON_POSTGRES else "sqlite_yard"
    found: Yard = request.getfixturevalue(fixture)
    return found


@pytest.fixture
async def caller(driver: str, yard: Yard) -> AsyncIterator[Caller]:
    """A program that has begun a transaction."""
    if driver in ON_POSTGRES:
        caller = ON_POSTGRES[driver](shared_url())
    else:
        caller = ON_SQLITE[driver](yard.url)
    await caller.begin()
    yield caller
    await caller.close()
