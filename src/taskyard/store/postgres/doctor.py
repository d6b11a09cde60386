"""Looks at what could make the server unsafe or slow."""

from __future__ import annotations

import time

from taskyard.domain.clock import Instant, seconds
from taskyard.store.port import Check
from taskyard.store.postgres.connection import OLDEST_SERVER, Connection
from taskyard.store.postgres.isolation import isolation_of, suits
from taskyard.store.postgres.migrate import newest_version, schema_version
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.pooler import THROUGH_POOLER, is_pooled
from taskyard.store.postgres.queries import schema_name

_SKEW_SECONDS = 30.0


async def diagnose(connection: Connection, options: Options) -> list[Check]:
    async def setting(name: str) -> str:
        return str(await connection.fetchval("SELECT current_setting($1)", name))

    version = await schema_version(connection, options.namespace)
    asked = time.time()
    now = await connection.fetchval(f"SELECT {schema_name(options.namespace)}.moment(0)")
    checks = [
        Check("store", True, f"{options.place} answers, schema {schema_name(options.namespace)}"),
        Check(
            "PostgreSQL",
            connection.get_server_version().major >= OLDEST_SERVER,
            f"{await setting('server_version')} (at least {OLDEST_SERVER} is needed)",
        ),
        Check(
            "schema",
            version == newest_version(),
            f"version {version}, newest is {newest_version()}",
        ),
        _durability(
            await setting("fsync"),
            await setting("synchronous_commit"),
            await setting("full_page_writes"),
        ),
        _isolation(await isolation_of(connection)),
        _primary(bool(await connection.fetchval("SELECT pg_is_in_recovery()"))),
        _clock(now, asked),
    ]
    if await is_pooled(connection, options):
        checks.append(_pooler(options))
    return checks


def _durability(fsync: str, commit: str, pages: str) -> Check:
    sure = fsync == "on" and commit != "off" and pages == "on"
    text = "a commit survives a power cut" if sure else "a power cut may lose commits"
    shown = f"fsync is {fsync}, synchronous_commit {commit}, full_page_writes {pages}"
    return Check("durability", sure, f"{shown}: {text}")


def _isolation(found: str) -> Check:
    return Check("isolation", suits(found), f"transactions are {found} (read committed is needed)")


def _primary(replica: bool) -> Check:
    return Check("primary", not replica, "a replica: read-only" if replica else "it takes writes")


def _clock(now: Instant, asked: float) -> Check:
    skew = seconds(now) - asked
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds(now)))
    ok = abs(skew) < _SKEW_SECONDS
    return Check("clock", ok, f"it is {shown} there, {abs(skew):.1f} s from the clock here")


def _pooler(options: Options) -> Check:
    if options.listen_dsn is not None:
        return Check("pooler", True, "hints are heard at the server itself, as listen= says")
    return Check("pooler", True, THROUGH_POOLER)
