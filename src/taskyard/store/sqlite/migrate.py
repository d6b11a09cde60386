"""Brings the schema to this version, one numbered migration at a time."""

from __future__ import annotations

import apsw

from taskyard.domain.errors import SchemaMismatch
from taskyard.store.sqlite.queries import in_namespace, migrations

_VERSION = "SELECT value FROM taskyard_meta WHERE name = 'schema'"
_META = "CREATE TABLE IF NOT EXISTS taskyard_meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID"
_SET = "INSERT OR REPLACE INTO taskyard_meta (name, value) VALUES ('schema', ?)"


def schema_version(db: apsw.Connection, namespace: str) -> int:
    """0 for a file that holds no yard yet."""
    known = "SELECT 1 FROM sqlite_master WHERE name = 'taskyard_meta'"
    if next(db.execute(in_namespace(known, namespace)), None) is None:
        return 0
    row = next(db.execute(in_namespace(_VERSION, namespace)), None)
    return 0 if row is None else int(str(row[0]))


def newest_version() -> int:
    return migrations()[-1][0]


def migrate(db: apsw.Connection, namespace: str, path: str) -> None:
    """Idempotent, and safe when several processes open the file at once."""
    if schema_version(db, namespace) == newest_version():
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = schema_version(db, namespace)
        if version > newest_version():
            raise SchemaMismatch(
                f"{path} was made by a newer Taskyard (schema {version}, this one knows "
                f"{newest_version()}); upgrade this one"
            )
        db.execute(in_namespace(_META, namespace))
        for number, sql in migrations():
            if number > version:
                db.execute(in_namespace(sql, namespace))
                db.execute(in_namespace(_SET, namespace), (number,))
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
