"""Looks whether a file holds a yard, without making or changing anything."""

from __future__ import annotations

from pathlib import Path

import apsw

from taskyard.store.sqlite.connection import MEMORY
from taskyard.store.sqlite.migrate import schema_version


def holds_yard(path: str, namespace: str) -> bool:
    """A file that cannot be looked at counts as one: opening it says what is wrong."""
    if path == MEMORY or not Path(path).exists():
        return False
    try:
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return schema_version(db, namespace) > 0
        finally:
            db.close()
    except apsw.Error:
        return True
