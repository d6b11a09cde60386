"""Finds out whether a pooler such as pgbouncer is between us and the server, and lives with it.

A pooler in transaction mode gives a client another session of the server for every transaction.
Nothing may then be left in a session: no prepared statement, no LISTEN, no lock and no setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard.store.postgres.options import Options

if TYPE_CHECKING:
    from taskyard.store.postgres.connection import Connection

THROUGH_POOLER = (
    "this way leads through a pooler, where LISTEN does not work, so changes are found by polling; "
    "add listen=host:port of the server itself to the URL, or pgbouncer=0 if it pools sessions"
)

# The arrays in our arguments and answers of which the driver knows the elements only.
_ARRAYS = "SELECT NULL::int2[], NULL::int4[], NULL::int8[], NULL::float8[], NULL::bool[]"


async def is_pooled(connection: Connection, options: Options) -> bool:
    """A pooler makes up the process number it gives to its clients; a server tells the true one.

    One in session mode looks the same: `pgbouncer=0` in the URL says that sessions are our own.
    `connection` must keep no statements prepared.
    """
    if options.pgbouncer is not None:
        return options.pgbouncer
    true: int = await connection.fetchval("SELECT pg_backend_pid()")
    return true != connection.get_server_pid()


async def learn_types(connection: Connection) -> None:
    """The driver asks the server for types it meets first, and turns `jit` off meanwhile.

    In one transaction it turns it on again where it had turned it off, and leaves no session of
    other clients changed.
    """
    async with connection.transaction():
        await connection.fetchrow(_ARRAYS)
