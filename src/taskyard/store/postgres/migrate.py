"""Brings the schema to this version, one numbered migration at a time, and makes the functions.

Functions are replaced, never dropped: workers of an older release that still run keep calling
theirs. A function whose arguments or answer change therefore gets a new name or a new migration.
Those of a newer release are left alone: an older one that is started again works with them.

A migration waits for locks a moment at a time. Whoever uses a table it wants to change would
otherwise queue behind it for as long as some transaction stays open that used the table before.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from functools import cache
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

import asyncpg

from taskyard.domain.errors import SchemaMismatch
from taskyard.store.port import Schema
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.queries import (
    functions,
    functions_hash,
    in_namespace,
    migrations,
    schema_name,
)

if TYPE_CHECKING:
    from taskyard.store.postgres.connection import Connection

_KNOWN = "SELECT to_regclass($1) IS NOT NULL"
_META = "CREATE TABLE IF NOT EXISTS taskyard.meta (name text PRIMARY KEY, value text NOT NULL)"
_GET = "SELECT value FROM taskyard.meta WHERE name = $1"
_SET = """INSERT INTO taskyard.meta (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('taskyard.migrate', 0))"

# At most so long others wait behind us for a table, and for us if we are stopped halfway.
_MODESTLY = """SET LOCAL lock_timeout = '1s';
    SET LOCAL idle_in_transaction_session_timeout = '60s'"""
_PAUSE = 2.0  # seconds, about: meanwhile others come through
_PATIENCE = 3600.0  # seconds: a large yard takes its time, and so does whoever holds the lock

log = logging.getLogger("taskyard.store.postgres")


def newest_version() -> int:
    return migrations("taskyard")[-1][0]


async def schema_version(connection: Connection, namespace: str) -> int:
    """0 where there is no yard yet."""
    if not await connection.fetchval(_KNOWN, f"{schema_name(namespace)}.meta"):
        return 0
    found = await connection.fetchval(in_namespace(_GET, namespace), "schema")
    return int(found or 0)


async def schema_of(connection: Connection, namespace: str) -> Schema:
    version, newest = await schema_version(connection, namespace), newest_version()
    if version != newest:
        return Schema(version, newest, current=False)
    made = await connection.fetchval(in_namespace(_GET, namespace), "functions")
    if made == functions_hash():
        return Schema(version, newest, current=True)
    maker = await connection.fetchval(in_namespace(_GET, namespace), "release")
    return Schema(version, newest, current=_numbers(maker or "0") > _numbers(_this_release()))


async def migrate(connection: Connection, options: Options) -> None:
    """Idempotent, and safe when several processes open the yard at once."""
    if await _is_current(connection, options):
        return
    if not options.migrate:
        raise SchemaMismatch(await _not_ours_to_do(connection, options))
    async with asyncio.timeout(_PATIENCE):
        while not await _tried(connection, options):
            log.info("a table of %s is in use: trying again to migrate", options.place)
            await asyncio.sleep(_PAUSE * random.uniform(0.5, 1.5))


async def _tried(connection: Connection, options: Options) -> bool:
    """False if something else is in the way for now; then nothing was changed."""
    try:
        async with connection.transaction(isolation="read_committed"):
            await connection.execute(in_namespace(_LOCK, options.namespace), timeout=_PATIENCE)
            if not await _is_current(connection, options):
                await connection.execute(_MODESTLY)
                await _bring_up(connection, options.namespace)
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def _is_current(connection: Connection, options: Options) -> bool:
    schema = await schema_of(connection, options.namespace)
    if schema.version > schema.newest:
        raise SchemaMismatch(
            f"{options.place} was made by a newer Taskyard (schema {schema.version}, this one "
            f"knows {schema.newest}); upgrade this one"
        )
    return schema.current


async def _not_ours_to_do(connection: Connection, options: Options) -> str:
    schema = await schema_of(connection, options.namespace)
    if schema.version == 0:
        found = "has no yard yet"
    elif schema.version < schema.newest:
        found = f"has schema {schema.version} and this release needs {schema.newest}"
    else:
        found = "has the functions of an older release"
    return f"{options.place} {found}, and its URL says migrate=0; first run: taskyard migrate"


async def _bring_up(connection: Connection, namespace: str) -> None:
    async def keep(name: str, value: str) -> None:
        await connection.execute(in_namespace(_SET, namespace), name, value)

    version = await schema_version(connection, namespace)
    if version == 0:
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema_name(namespace)}")
        await connection.execute(in_namespace(_META, namespace))
    for number, sql in migrations(namespace):
        if number > version:
            await connection.execute(sql, timeout=_PATIENCE)
            await keep("schema", str(number))
    for sql in functions(namespace):
        await connection.execute(sql)
    await keep("functions", functions_hash())
    await keep("release", _this_release())


@cache
def _this_release() -> str:
    return version_of("taskyard")


def _numbers(release: str) -> tuple[int, ...]:
    """1.10 is newer than 1.9; what comes after the numbers makes no difference."""
    leading = re.match(r"[0-9.]*", release)
    assert leading is not None
    return tuple(int(part) for part in leading[0].split(".") if part)
