"""The caller's own connection to the file of the yard, as far as it can be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from taskyard.domain.errors import ConfigurationError, StoreBusy, StoreUnavailable
from taskyard.store.joining import type_names
from taskyard.store.sqlite.connection import MEMORY
from taskyard.store.sqlite.migrate import newest_version, schema_version
from taskyard.store.sqlite.queries import in_namespace

_WRITE = "UPDATE taskyard_meta SET value = value WHERE name = 'seq'"


@contextmanager
def joined(connection: object, path: str, namespace: str) -> Iterator[apsw.Connection]:
    """A step inside the caller's transaction; in autocommit mode one of its own."""
    db = _usable(connection, path)
    # What the caller makes of its rows is not for ours.
    row_trace, db.row_trace = db.row_trace, None
    exec_trace, db.exec_trace = db.exec_trace, None
    try:
        _lock(db, path, namespace)
        if schema_version(db, namespace) != newest_version():
            raise StoreUnavailable(
                f"{path} holds no yard of this version of Taskyard; open it once before, "
                "or run: taskyard migrate"
            )
        with db:  # a savepoint, so that a step that fails leaves nothing behind
            yield db
    finally:
        db.row_trace, db.exec_trace = row_trace, exec_trace


def _lock(db: apsw.Connection, path: str, namespace: str) -> None:
    """Before anything is read: a transaction that has read cannot write once another has."""
    try:
        db.execute(in_namespace(_WRITE, namespace))
    except apsw.SQLError:
        pass  # there is no yard, as will be told
    except apsw.BusyError as error:
        raise StoreBusy(
            f"{path} has been written to since this transaction began to read; begin it with "
            "BEGIN IMMEDIATE, or do it again"
        ) from error


def _usable(connection: object, path: str) -> apsw.Connection:
    if not isinstance(connection, apsw.Connection):
        raise _unusable(connection)
    if path == MEMORY:
        raise ConfigurationError(
            "a yard in memory belongs to its own connection; use a file to enqueue in another"
        )
    opened = connection.db_filename("main")
    if not opened or not Path(path).exists() or not Path(opened).samefile(path):
        raise ConfigurationError(
            f"this connection is open on {opened or 'no file'}, but the yard is {path}"
        )
    return connection


def _unusable(connection: object) -> ConfigurationError:
    """Only apsw: the locks of a file belong to the process, not to one copy of SQLite in it.

    When one copy closes the file, the locks of the other are gone, and the file can be damaged.
    Python's own sqlite3, and SQLAlchemy on it, bring another copy than apsw does.
    """
    name = type_names(connection)[0]
    return ConfigurationError(
        f"{name} cannot be used: a second copy of SQLite in one process would break the locks of "
        "the first one. Open the file with apsw.Connection"
    )
