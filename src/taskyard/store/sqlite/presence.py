"""Looks whether a file holds a yard, without making or changing anything."""

from __future__ import annotations

from pathlib import Path

import apsw

from taskyard.store.port import Schema
from taskyard.store.sqlite.connection import MEMORY
from taskyard.store.sqlite.errors import translate
from taskyard.store.sqlite.forks import no_fork
from taskyard.store.sqlite.migrate import newest_version, schema_version


def holds_yard(path: str, namespace: str) -> bool:
    """A file that cannot be looked at counts as one: opening it says what is wrong."""
    try:
        return _version(path, namespace) > 0
    except apsw.Error:
        return True


def schema_of(path: str, namespace: str) -> Schema:
    try:
        version, newest = _version(path, namespace), newest_version()
    except apsw.Error as error:
        raise translate(error, path) from error
    return Schema(version, newest, current=version == newest)


def _version(path: str, namespace: str) -> int:
    if path == MEMORY or not Path(path).exists():
        return 0
    with no_fork():
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return schema_version(db, namespace)
        finally:
            db.close()
