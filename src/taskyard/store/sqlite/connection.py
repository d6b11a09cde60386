"""Opens the file safely, or says why not."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import apsw

from taskyard.domain.errors import ConfigurationError, StoreReadOnly, StoreUnavailable

MEMORY = ":memory:"
BUSY_SECONDS = 30.0

# A checkpoint that races with a writer could lose committed frames before this version.
SAFE_SQLITE = (3, 51, 3)

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs"}
)
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")  # how the kernel writes blanks in a mount point


def connect(path: str, *, busy_seconds: float = BUSY_SECONDS) -> apsw.Connection:
    refuse_unsafe_sqlite()
    if path != MEMORY:
        _refuse_bad_place(Path(path))
    db = apsw.Connection(path, statementcachesize=300)
    db.set_busy_handler(_Patience(busy_seconds))
    # One statement a call: execute() stops at the first row, and most pragmas answer one.
    db.pragma("journal_mode", "WAL")
    # FULL: a commit is on the disk when it returns, also after a power cut.
    db.pragma("synchronous", "FULL")
    # With STAT4 a statement is prepared anew whenever a binding changes, which costs many of ours
    # more than running it. Their plans are fixed by INDEXED BY and CROSS JOIN anyway.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.pragma("temp_store", "MEMORY")
    db.pragma("journal_size_limit", 67108864)
    db.pragma("cache_size", -16000)
    return db


def sqlite_version() -> tuple[int, ...]:
    return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))


def refuse_unsafe_sqlite() -> None:
    if sqlite_version() < SAFE_SQLITE:
        wanted = ".".join(map(str, SAFE_SQLITE))
        raise ConfigurationError(
            f"SQLite {apsw.sqlite_lib_version()} can lose committed data in WAL mode; "
            f"{wanted} or newer is needed: pip install --upgrade apsw"
        )


def _refuse_bad_place(path: Path) -> None:
    folder = path.parent if path.parent != Path() else Path.cwd()
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder; name a file in it")
    if not folder.is_dir():
        raise StoreUnavailable(f"there is no folder {folder}; make it first")
    kind = filesystem_of(folder)
    if kind in _NETWORK:
        raise ConfigurationError(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold; "
            "use a local disk, or postgresql:// or redis:// for several machines"
        )
    if path.exists() and not os.access(path, os.W_OK):
        raise StoreReadOnly(f"{path} cannot be written; check the rights of the file")
    if not os.access(folder, os.W_OK):
        raise StoreReadOnly(f"the folder {folder} cannot be written, and SQLite keeps files there")


def filesystem_of(folder: Path) -> str | None:
    """The type of the file system a folder is on, where the system tells."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    where = folder.resolve()
    best: tuple[int, str] | None = None
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4]))
        if where.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), rest.split()[0])
    return best[1] if best else None


class _Patience:
    """Tries again every millisecond or so: SQLite's own handler sleeps up to 100 ms."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0

    def __call__(self, tries: int) -> bool:
        if tries == 0:
            self._since = time.monotonic()
        if time.monotonic() - self._since > self._seconds:
            return False
        time.sleep(random.uniform(0.0003, 0.002))
        return True
