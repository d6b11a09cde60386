"""SQLAlchemy 2: connections and sessions, on whatever driver the engine uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.domain.errors import ConfigurationError
from taskyard.store.postgres.adapters.placeholders import percent

CONNECTIONS = ("sqlalchemy.engine.base.Connection",)
SESSIONS = ("sqlalchemy.orm.session.Session", "sqlalchemy.orm.scoping.scoped_session")
ASYNC_CONNECTIONS = ("sqlalchemy.ext.asyncio.engine.AsyncConnection",)
ASYNC_SESSIONS = (
    "sqlalchemy.ext.asyncio.session.AsyncSession",
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
)


def value(connection: Any, statement: str, args: Sequence[object]) -> Any:
    given = _for_driver(connection.dialect, statement)
    return connection.exec_driver_sql(given, tuple(args)).scalar()


def session_value(session: Any, statement: str, args: Sequence[object]) -> Any:
    return value(session.connection(), statement, args)


async def async_value(connection: Any, statement: str, args: Sequence[object]) -> Any:
    given = _for_driver(connection.dialect, statement)
    return (await connection.exec_driver_sql(given, tuple(args))).scalar()


async def async_session_value(session: Any, statement: str, args: Sequence[object]) -> Any:
    return await async_value(await session.connection(), statement, args)


def _for_driver(dialect: Any, statement: str) -> str:
    if dialect.name != "postgresql":
        raise ConfigurationError(
            f"this connection leads to {dialect.name}, but the yard is on PostgreSQL"
        )
    return statement if dialect.paramstyle == "numeric_dollar" else percent(statement)
