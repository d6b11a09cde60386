"""Which adapter a connection needs, by the name of its type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from taskyard.domain.errors import ConfigurationError
from taskyard.store.joining import type_names
from taskyard.store.postgres.adapters import asyncpg, psycopg, sqlalchemy

Blocking = Callable[[Any, str, Sequence[object]], Any]
Awaiting = Callable[[Any, str, Sequence[object]], Awaitable[Any]]

_BLOCKING: Mapping[str, Blocking] = {
    **dict.fromkeys(psycopg.TYPES, psycopg.value),
    **dict.fromkeys(sqlalchemy.CONNECTIONS, sqlalchemy.value),
    **dict.fromkeys(sqlalchemy.SESSIONS, sqlalchemy.session_value),
}
_AWAITING: Mapping[str, Awaiting] = {
    **dict.fromkeys(asyncpg.TYPES, asyncpg.value),
    **dict.fromkeys(psycopg.ASYNC_TYPES, psycopg.async_value),
    **dict.fromkeys(sqlalchemy.ASYNC_CONNECTIONS, sqlalchemy.async_value),
    **dict.fromkeys(sqlalchemy.ASYNC_SESSIONS, sqlalchemy.async_session_value),
}


def awaiting(connection: object) -> Awaiting | None:
    return next((_AWAITING[name] for name in type_names(connection) if name in _AWAITING), None)


def blocking(connection: object) -> Blocking:
    names = type_names(connection)
    found = next((_BLOCKING[name] for name in names if name in _BLOCKING), None)
    if found is not None:
        return found
    if awaiting(connection) is not None:
        raise ConfigurationError(f"{names[0]} must be awaited: use enqueue_in")
    raise ConfigurationError(
        f"{names[0]} is no connection Taskyard knows how to enqueue in; it knows those of asyncpg, "
        "psycopg 3 and SQLAlchemy 2"
    )
