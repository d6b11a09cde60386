"""Sees to it that transactions are READ COMMITTED, whatever the database or the role prefers.

Verbs count and park under locks: whoever has waited for one must see what the other has committed.
`lock_room` in functions/010_basics.sql refuses every other isolation. A caller's own transaction
may have any: an enqueue that joins it counts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from taskyard.store.postgres.connection import Connection

_ENOUGH = ("read committed", "read uncommitted")  # to PostgreSQL they are the same


async def use_read_committed(connection: Connection) -> None:
    """For a session of our own. Not said when connecting: a pooler of sessions may refuse that."""
    await connection.execute("SET default_transaction_isolation = 'read committed'")


async def isolation_of(connection: Connection) -> str:
    """That of a transaction in which nothing else is said."""
    return str(await connection.fetchval("SELECT current_setting('transaction_isolation')"))


def suits(isolation: str) -> bool:
    return isolation in _ENOUGH


async def refuse_other_isolation(connection: Connection, place: str) -> None:
    """Through a pooler, where the sessions are not ours to set."""
    isolation = await isolation_of(connection)
    if not suits(isolation):
        raise ConfigurationError(
            f"{place} begins transactions as {isolation.upper()}, and a pooler is in between; "
            "Taskyard needs READ COMMITTED: ALTER ROLE … SET default_transaction_isolation = "
            "'read committed', or name the server itself"
        )
