"""Schemas on the shared PostgreSQL server that are used again: emptying one is quicker than making
one, with all its tables and functions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import psycopg
from psycopg import sql

from taskyard.domain.task import new_task_id
from taskyard.store.postgres.queries import schema_name
from taskyard.store.url import open_store
from tests.servers import postgres

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = %s ORDER BY 1"


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
        self._tables = self._column(_TABLES, self._pristine)
        self._sequences = self._column(_SEQUENCES, self._pristine)
        assert self._tables
        assert self._sequences

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of one."""
        name = self._free.pop() if self._free else self._name()
        yield self._url(name)
        if self._emptied(name):
            self._free.append(name)

    def _emptied(self, name: str) -> bool:
        """False: its test has not left it as it was made, or has not left it at all."""
        if self._column(_TABLES, name) != self._tables:
            return False
        schema = schema_name(name)
        ours, pristine = sql.Identifier(schema), sql.Identifier(schema_name(self._pristine))
        steps = [
            sql.SQL(
                "DELETE FROM {0}.{2}; INSERT INTO {0}.{2} OVERRIDING SYSTEM VALUE TABLE {1}.{2}"
            ).format(ours, pristine, sql.Identifier(table))
            for table in self._tables
        ]
        steps += [
            sql.SQL("SELECT setval({0}, last_value, is_called) FROM {1}.{2}").format(
                sql.Literal(f'"{schema}"."{sequence}"'), pristine, sql.Identifier(sequence)
            )
            for sequence in self._sequences
        ]
        try:
            self._connection.execute(sql.SQL("; ").join(steps))
        except psycopg.Error:
            self._connection.rollback()
            return False
        self._connection.commit()
        return True

    def _column(self, query: str, name: str) -> list[str]:
        rows = self._connection.execute(query, [schema_name(name)]).fetchall()
        self._connection.rollback()
        return [row[0] for row in rows]

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
