"""Schemas on the shared PostgreSQL server that are used again: emptying one is quicker than making
one, with all its tables and functions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from taskyard.domain.task import new_task_id
from taskyard.store.postgres.queries import schema_name
from taskyard.store.url import open_store
from tests.servers import postgres

_TABLES = """
    SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
      FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
     WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r'
       AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     GROUP BY 1 ORDER BY 1
"""
# What a test may have changed of it besides, without the names of schemas that are in it.
_REST = """
    WITH ours AS (SELECT to_regnamespace(%(schema)s) AS oid)
    SELECT proname::text, md5(replace(prosrc, %(schema)s, '')) FROM pg_proc, ours
     WHERE pronamespace = ours.oid
     UNION ALL SELECT relname::text, concat(relkind, relpersistence, reloptions) FROM pg_class, ours
     WHERE relnamespace = ours.oid
     UNION ALL SELECT conname::text, contype::text FROM pg_constraint, ours
     WHERE connamespace = ours.oid
     UNION ALL SELECT tgname::text, tgenabled::text FROM pg_trigger, ours
     WHERE tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = ours.oid) AND NOT tgisinternal
     ORDER BY 1, 2
"""
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = %(schema)s ORDER BY 1"


class Schemas:
    """What is lent out is as good as new."""

    def __init__(self) -> None:
        self._server = postgres.shared_url()
        self._connection = psycopg.connect(self._server, options="-c lock_timeout=5s")
        self._free: list[str] = []
        self._pristine = self._name()
        thread = threading.Thread(target=lambda: asyncio.run(_make(self._url(self._pristine))))
        thread.start()
        thread.join()
        self._tables = self._ask(_TABLES, self._pristine)
        self._sequences = [name for (name,) in self._ask(_SEQUENCES, self._pristine)]
        self._rest = self._ask(_REST, self._pristine)
        assert self._tables
        assert self._rest
        assert self._sequences

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of one."""
        name = self._free.pop() if self._free else self._name()
        yield self._url(name)
        if self._emptied(name):
            self._free.append(name)

    @contextmanager
    def unused(self) -> Iterator[str]:
        """The URL of one that nobody else had or will have."""
        yield self._url(self._name())

    def _emptied(self, name: str) -> bool:
        """False: its test has not left it as it was made, or has not left it at all."""
        if (self._ask(_TABLES, name), self._ask(_REST, name)) != (self._tables, self._rest):
            return False
        schema = schema_name(name)
        ours, pristine = sql.Identifier(schema), sql.Identifier(schema_name(self._pristine))
        steps = [
            sql.SQL(
                "DELETE FROM {0}.{2}; "
                "INSERT INTO {0}.{2} ({3}) OVERRIDING SYSTEM VALUE SELECT {3} FROM {1}.{2}"
            ).format(
                ours,
                pristine,
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
            )
            for table, columns in self._tables
        ]
        steps += [
            sql.SQL("SELECT setval({0}, last_value, is_called) FROM {1}.{2}").format(
                sql.Literal(f'"{schema}"."{sequence}"'), pristine, sql.Identifier(sequence)
            )
            for sequence in self._sequences
        ]
        try:
            self._connection.execute(sql.SQL("; ").join(steps))
        except psycopg.errors.LockNotAvailable:
            self._connection.rollback()
            return False
        self._connection.commit()
        return True

    def _ask(self, query: LiteralString, name: str) -> list[tuple[Any, ...]]:
        rows = self._connection.execute(query, {"schema": schema_name(name)}).fetchall()
        self._connection.rollback()
        return rows

    def _url(self, name: str) -> str:
        return f"{self._server}?namespace={name}"

    @staticmethod
    def _name() -> str:
        return f"test_{new_task_id()}"


@cache
def schemas() -> Schemas:
    return Schemas()


async def _make(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()
