"""Translates the driver's errors at the edge: nothing above the store sees asyncpg."""

from __future__ import annotations

import asyncpg
from asyncpg import exceptions as pg

from taskyard.domain.errors import (
    InvalidOption,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TaskyardError,
)

Raised = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""What a call to the driver may raise; ValueError from a wrong argument comes as InterfaceError.

InternalClientError too: a connection that breaks in the middle of an answer leaves the driver in
a state it did not foresee.
"""

# Two calls met in a way only one of them could survive; the other is simply repeated.
COLLISIONS = (pg.DeadlockDetectedError, pg.SerializationError)

# The connection, not the statement, was the trouble.
LOST = (
    pg.PostgresConnectionError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
    asyncpg.InternalClientError,
    OSError,
)


def is_lost(error: BaseException) -> bool:
    """Whether another connection could do what this one could not."""
    closed = isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError)
    return closed or (isinstance(error, LOST) and not isinstance(error, TimeoutError))


_TEXTS: tuple[tuple[tuple[type[BaseException], ...], type[TaskyardError], str], ...] = (
    (
        (pg.InvalidPasswordError, pg.InvalidAuthorizationSpecificationError),
        StoreUnavailable,
        "{place} refuses this user or password; check them in the URL of the store",
    ),
    (
        (pg.InvalidCatalogNameError,),
        StoreUnavailable,
        "{place}: there is no such database; make it with createdb",
    ),
    (
        (pg.ReadOnlySQLTransactionError,),
        StoreReadOnly,
        "{place} is read-only (a replica?); name the primary server",
    ),
    (
        (pg.DiskFullError,),
        StoreFull,
        "no room left on the disk of {place}; free some, then repeat the call: nothing was saved",
    ),
    (
        (pg.TooManyConnectionsError,),
        StoreUnavailable,
        "{place} accepts no more connections; raise its max_connections",
    ),
    (
        (pg.InsufficientPrivilegeError,),
        StoreUnavailable,
        "{place}: this user may not do that ({error}); grant it",
    ),
    (
        (pg.DataCorruptedError, pg.IndexCorruptedError),
        StoreCorrupt,
        "{place} is damaged ({error}); restore it from a backup",
    ),
    (
        (pg.CharacterNotInRepertoireError, pg.UntranslatableCharacterError),
        InvalidOption,
        "PostgreSQL keeps no text with the character NUL in it: {error}",
    ),
    (
        (*COLLISIONS, pg.LockNotAvailableError, pg.QueryCanceledError),
        StoreBusy,
        "{place}: other calls were in the way ({error}); repeat the call",
    ),
    ((TimeoutError,), StoreUnavailable, "{place} did not answer in time"),
)


def translate(error: BaseException, place: str) -> TaskyardError:
    """What went wrong, where, and what to do about it; `place` is the URL without the password."""
    # The driver refused an argument. Those of the server have classes of their own, and are ours.
    if type(error) is asyncpg.DataError or isinstance(error, ValueError):
        return InvalidOption(f"PostgreSQL cannot keep this value: {error}")
    for kinds, answer, text in _TEXTS:
        if isinstance(error, kinds):
            return answer(text.format(place=place, error=error))
    if is_lost(error):
        why = str(error) or type(error).__name__
        return StoreUnavailable(f"{place} cannot be reached: {why}")
    return StoreError(f"{place}: {type(error).__name__}: {error}")
