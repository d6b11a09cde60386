"""Translates the driver's errors at the edge: nothing above the store sees apsw."""

from __future__ import annotations

import apsw
import msgspec

from taskyard.domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)


def shown(error: BaseException, path: str) -> BaseException:
    """The error of a job, as its caller is to see it."""
    match error:
        case apsw.Error():
            return translate(error, path)
        case msgspec.DecodeError() | UnicodeDecodeError():
            return unreadable(error, path)
        case _:
            return error


def unreadable(error: Exception, path: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"what is stored in {path} cannot be read ({error}); restore it from a backup"
    )


def translate(error: apsw.Error, path: str) -> StoreError:
    """What went wrong, where, and what to do about it."""
    match error:
        case apsw.FullError():
            return StoreFull(
                f"no room left on the disk that holds {path}; free some, then repeat the call: "
                "nothing of it was saved"
            )
        case apsw.ReadOnlyError():
            return StoreReadOnly(f"{path} cannot be written; check the rights of file and folder")
        case apsw.NotADBError():
            return StoreCorrupt(f"{path} is not an SQLite database; name another file")
        case apsw.CorruptError():
            return StoreCorrupt(f"{path} is damaged ({error}); restore it from a backup")
        case apsw.SQLError() if "JSON" in str(error):
            return unreadable(error, path)
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"{path} is locked by another program; end its transaction, then repeat the call"
            )
        case apsw.CantOpenError():
            return StoreUnavailable(f"{path} cannot be opened; check that its folder exists")
        case apsw.IOError():
            return StoreUnavailable(f"reading or writing {path} failed: {error}")
        case _:
            return StoreError(f"{path}: {type(error).__name__}: {error}")
