"""Translates the driver's errors at the edge: nothing above the store sees redis."""

from __future__ import annotations

import re
import socket

from redis import exceptions as redis_errors

from taskyard.domain.errors import (
    ConfigurationError,
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from taskyard.store.redis.address import Address
from taskyard.store.redis.scripts import SCHEMA

# What a server answers when it cannot do the work now but may later.
_NOT_NOW = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "UNBLOCKED")
# What a script says when something that was stored is not what it should be.
_UNREADABLE = ("UNREADABLE", "Bad data format in input", "Missing bytes in input")
# What it says of a yard that another release has brought into its own layout.
_OTHER_LAYOUT = re.compile(r"\bSCHEMA (\d+)")


FAILURES = (
    redis_errors.RedisError,
    redis_errors.RedisClusterException,  # has no ancestor in common with the others
    OSError,
    TimeoutError,
)
"""Whatever the driver raises on purpose."""


def translate_first(error: Exception, server: object) -> StoreError:
    """The same while the server has answered nothing yet: then it may be the wrong one."""
    match error:
        case redis_errors.TimeoutError() | TimeoutError():
            why = "did not answer in time"
        case redis_errors.ConnectionError() if _hung_up(error):
            why = "hung up"
        case redis_errors.InvalidResponse():
            why = "gives no answer that Redis would give"
        case _:
            return translate(error, server)
    return StoreUnavailable(
        f"{server} {why}; is it a Redis server? check host and port, and whether it speaks TLS "
        "(rediss://) or not (redis://)"
    )


def translate(error: Exception, server: object) -> StoreError:
    """What went wrong, where, and what to do about it. `server` shows no password."""
    text = str(error)
    match error:
        case redis_errors.AuthenticationError() | redis_errors.AuthorizationError():
            return StoreUnavailable(
                f"{server} refuses the user or the password of the URL; check both"
            )
        case redis_errors.TimeoutError() | TimeoutError():
            return StoreUnavailable(f"{server} did not answer in time; is it overloaded?")
        case redis_errors.BusyLoadingError():
            return StoreUnavailable(f"{server} is still loading its data; try again in a moment")
        case redis_errors.MovedError() if isinstance(server, Address) and not server.cluster:
            return StoreUnavailable(lone_node(server))
        case redis_errors.ClusterError() | redis_errors.TryAgainError():
            return StoreUnavailable(f"{server} is not ready: {text}")
        case redis_errors.SlotNotCoveredError():
            return StoreUnavailable(f"{server} is not ready: no node holds this yard at the moment")
        case redis_errors.RedisClusterException():
            return StoreUnavailable(f"{server} cannot be reached: no node of the cluster answers")
        case redis_errors.ReadOnlyError():
            return _replica(server)
        case redis_errors.OutOfMemoryError():
            return _full(server)
        case redis_errors.NoPermissionError():
            return StoreUnavailable(
                f"{server} does not allow this user what is needed: {text}; grant it (ACL)"
            )
        case redis_errors.ConnectionError() | OSError():
            return StoreUnavailable(f"{server} cannot be reached: {_why(error)}")
        case _:
            return _by_answer(text, server)


def _why(error: Exception) -> str:
    match _origin(error):
        case ConnectionRefusedError():
            return "nobody listens there; is it running, at this port?"
        case socket.gaierror() as unknown:
            return f"its host is unknown ({unknown.strerror}); check the name"
        case _:
            return str(error).rstrip(".")


def _hung_up(error: Exception) -> bool:
    reset = isinstance(_origin(error), ConnectionResetError | BrokenPipeError)
    return reset or "Connection closed" in str(error)


def _origin(error: BaseException | None) -> OSError | None:
    """What the system said, of which the driver keeps the text alone."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _by_answer(text: str, server: object) -> StoreError:
    """By the words of the server's answer; a script's error carries them inside."""
    if "OOM " in text:
        return _full(server)
    if "READONLY" in text or "read only replica" in text:
        return _replica(server)
    if "MISCONF" in text:
        return StoreReadOnly(
            f"{server} refuses writes because it cannot save its data to disk; look at its log"
        )
    if "NOAUTH" in text or "WRONGPASS" in text or "NOPERM" in text:
        return StoreUnavailable(f"{server} refuses this user: {text}")
    if "DB index is out of range" in text:
        return StoreUnavailable(
            f"{server}: there is no database of this number; name a smaller one in the URL"
        )
    if found := _OTHER_LAYOUT.search(text):
        return other_layout(int(found[1]), server)
    if any(words in text for words in _UNREADABLE):
        return StoreCorrupt(f"{server}: what is stored there cannot be read: {text}")
    if text.startswith("BUSY"):
        return StoreBusy(f"{server} is busy running another script; try again in a moment")
    if text.startswith(_NOT_NOW):
        return StoreUnavailable(f"{server} is not ready: {text}")
    return StoreError(f"{server}: {text}")


def is_full(error: Exception) -> bool:
    """The call was refused for want of memory, and nothing of it was done."""
    return isinstance(error, redis_errors.OutOfMemoryError) or "OOM " in str(error)


def _full(server: object) -> StoreFull:
    return StoreFull(
        f"{server} has used up its memory; raise maxmemory or remove old tasks, then repeat the "
        "call: nothing of it was saved"
    )


def _replica(server: object) -> StoreReadOnly:
    return StoreReadOnly(f"{server} is a read-only replica; name the primary in the URL")


def lone_node(address: Address) -> str:
    return f"{address} is a node of a cluster; use {address.of_cluster()}"


def refuse_wrong_password(error: BaseException) -> None:
    """At the beginning it is the URL that is wrong; later the server may come to its senses."""
    cause = error.__cause__
    if isinstance(cause, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        raise ConfigurationError(str(error)) from cause


def other_layout(version: int, server: object) -> SchemaMismatch:
    known = f"(schema {version}, this one knows {SCHEMA})"
    if version > SCHEMA:
        return SchemaMismatch(f"{server} was made by a newer Taskyard {known}; upgrade this one")
    return SchemaMismatch(f"{server} was made by an older Taskyard {known}; start this one anew")
