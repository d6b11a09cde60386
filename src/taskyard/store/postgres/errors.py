"""Translates the driver's errors at the edge: nothing above the store sees asyncpg."""

from __future__ import annotations

import errno
import os
import socket

import asyncpg
from asyncpg import exceptions as pg

from taskyard.domain.errors import (
    ConfigurationError,
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


_FULL = "no room left on the disk of {place}; free some, then repeat the call: nothing was saved"

Texts = tuple[tuple[tuple[type[BaseException], ...], type[TaskyardError], str], ...]

_TEXTS: Texts = (
    (
        (pg.InvalidPasswordError,),
        StoreUnavailable,
        "{place} refuses this user or password; check them in the URL of the store",
    ),
    (
        (pg.InvalidAuthorizationSpecificationError,),
        StoreUnavailable,
        "{place} refuses this user: {error}; check the URL and the server's pg_hba.conf",
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
    ((pg.DiskFullError,), StoreFull, _FULL),
    (
        (pg.TooManyConnectionsError,),
        StoreUnavailable,
        "{place} accepts no more connections; raise its max_connections",
    ),
    (
        (pg.InsufficientPrivilegeError,),
        StoreUnavailable,
        "{place}: this user may not do that ({error}); grant it, or name another user",
    ),
    (
        (pg.DataCorruptedError, pg.IndexCorruptedError),
        StoreCorrupt,
        "{place} is damaged ({error}); restore it from a backup",
    ),
    (
        (pg.InappropriateIsolationLevelForBranchTransactionError,),
        ConfigurationError,
        "{place}: {error}; set default_transaction_isolation of its role or database back to that",
    ),
    (
        (asyncpg.ClientConfigurationError,),
        ConfigurationError,
        "{place}: {error}; correct the URL of the store",
    ),
    (
        (*COLLISIONS, pg.LockNotAvailableError, pg.QueryCanceledError),
        StoreBusy,
        "{place}: other calls were in the way ({error}); repeat the call",
    ),
    (
        (TimeoutError,),
        StoreUnavailable,
        "{place} did not answer in time; is it overloaded? (timeout= in the URL sets how long)",
    ),
    (
        (ConnectionRefusedError,),
        StoreUnavailable,
        "{place} cannot be reached: nobody listens there; is it running, at this port?",
    ),
    (
        (socket.gaierror,),
        StoreUnavailable,
        "{place} cannot be reached: its host is unknown ({error.strerror}); check the name",
    ),
    (
        (FileNotFoundError,),
        ConfigurationError,
        "{place}: a file or socket that its URL or environment names is not there",
    ),
)

# Before the first answer it may be the wrong server altogether.
_CONNECTING: Texts = (
    (
        (asyncpg.TargetServerAttributeNotMatched,),
        StoreUnavailable,
        "{place} is no such server as target_session_attrs in its URL asks for",
    ),
    (
        (TimeoutError,),
        StoreUnavailable,
        "{place} did not answer in time; is it a PostgreSQL server, and is the way to it open?",
    ),
    (
        (pg.ConnectionDoesNotExistError, ConnectionResetError, asyncpg.InternalClientError),
        StoreUnavailable,
        "{place} hung up; is it a PostgreSQL server? check host and port",
    ),
)

_UNKEEPABLE = (pg.CharacterNotInRepertoireError, pg.UntranslatableCharacterError)
_NUL = ("0x00", r"\u0000")  # as it says it of a text, and of a text in JSON
_NO_TLS = "rejected SSL upgrade"  # the driver has no class of its own for it
_NO_ROOM = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT))


def translate_connecting(error: BaseException, place: str) -> TaskyardError:
    """Why there is no connection at all."""
    if _NO_TLS in str(error):
        return StoreUnavailable(
            f"{place} offers no TLS, or is no PostgreSQL server; check host, port and sslmode"
        )
    return _told(_CONNECTING, error, place) or translate(error, place)


def translate(error: BaseException, place: str) -> TaskyardError:
    """What went wrong, where, and what to do about it; `place` is the URL without the password."""
    told = _told(_TEXTS, error, place)
    if told is not None:
        return told
    if isinstance(error, _UNKEEPABLE):
        return InvalidOption(_why_unkeepable(error))
    # The driver refused an argument. Those of the server have classes of their own, and are ours.
    if type(error) is asyncpg.DataError or isinstance(error, ValueError):
        return InvalidOption(f"PostgreSQL cannot keep this value: {error}")
    if isinstance(error, pg.InternalServerError) and any(why in str(error) for why in _NO_ROOM):
        return StoreFull(_FULL.format(place=place))  # a quota has no code of its own
    if is_lost(error):
        why = str(error) or type(error).__name__
        return StoreUnavailable(f"{place} cannot be reached: {why}")
    return StoreError(f"{place}: {type(error).__name__}: {error}")


def _why_unkeepable(error: pg.PostgresError) -> str:
    said = f"{error} {getattr(error, 'detail', None) or ''}"
    if any(nul in said for nul in _NUL):
        return "PostgreSQL keeps no text with the character NUL in it"
    return f"PostgreSQL cannot keep this text: {error}"


def _told(texts: Texts, error: BaseException, place: str) -> TaskyardError | None:
    for kinds, answer, text in texts:
        if isinstance(error, kinds):
            return answer(text.format(place=place, error=error))
    return None
