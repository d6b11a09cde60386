"""Looks at what could make the file unsafe or slow."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from taskyard.store.port import Check
from taskyard.store.sqlite.connection import (
    MEMORY,
    SAFE_SQLITE,
    filesystem_of,
    sqlite_version,
)
from taskyard.store.sqlite.migrate import newest_version, schema_version
from taskyard.store.sqlite.tx import Tx

_LEVELS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
_SANE_SINCE = 1_700_000_000


def diagnose(tx: Tx, path: str, namespace: str) -> list[Check]:
    checks = [
        Check("store", True, f"{path} is open"),
        _sqlite(),
        _schema(tx.db, namespace),
        _journal(tx.db, path),
        _durability(tx.db),
        _integrity(tx.db),
        _clock(),
    ]
    if path != MEMORY:
        checks.insert(1, _place(path))
    return checks


def _place(path: str) -> Check:
    kind = filesystem_of(Path(path).parent.resolve())
    return Check("file system", True, f"{kind or 'unknown'}, local")


def _sqlite() -> Check:
    wanted = ".".join(map(str, SAFE_SQLITE))
    return Check(
        "SQLite",
        sqlite_version() >= SAFE_SQLITE,
        f"{apsw.sqlite_lib_version()} (at least {wanted} is safe)",
    )


def _schema(db: apsw.Connection, namespace: str) -> Check:
    version, newest = schema_version(db, namespace), newest_version()
    return Check("schema", version == newest, f"version {version}, newest is {newest}")


def _journal(db: apsw.Connection, path: str) -> Check:
    mode = str(db.pragma("journal_mode"))
    return Check("journal", mode == "wal" or path == MEMORY, f"journal_mode is {mode}")


def _durability(db: apsw.Connection) -> Check:
    level = int(db.pragma("synchronous"))
    text = "a commit survives a power cut" if level >= 2 else "a power cut may lose commits"
    return Check("durability", level >= 2, f"synchronous is {_LEVELS.get(level, level)}: {text}")


def _integrity(db: apsw.Connection) -> Check:
    row = next(db.execute("PRAGMA quick_check(1)"))
    answer = str(row[0])
    return Check("integrity", answer == "ok", f"quick_check says {answer}")


def _clock() -> Check:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    return Check("clock", now > _SANE_SINCE, f"it is {shown}")
