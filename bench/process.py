"""What the kernel and SQLite's own files tell about a process and its database."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    """Counters since the start of a process; the difference of two is what happened between."""

    cpu_seconds: float
    wake_ups: int
    commits: int
    wal_bytes: int

    def __sub__(self, earlier: Usage) -> Usage:
        return Usage(
            self.cpu_seconds - earlier.cpu_seconds,
            self.wake_ups - earlier.wake_ups,
            self.commits - earlier.commits,
            self.wal_bytes - earlier.wal_bytes,
        )


def usage(pid: int, database: Path | None) -> Usage:
    """Without a file of SQLite, what the kernel knows alone."""
    written = (commits(database), wal_bytes(database)) if database else (0, 0)
    return Usage(cpu_seconds(pid), wake_ups(pid), *written)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wake_ups(pid: int) -> int:
    """How often its threads gave the processor away to wait, which is how often they woke."""
    return sum(
        status(path, "voluntary_ctxt_switches")
        for path in Path(f"/proc/{pid}/task").glob("*/status")
    )


def resident_mb(pid: int) -> float:
    return status(Path(f"/proc/{pid}/status"), "VmRSS") / 1024


def peak_mb(pid: int) -> float:
    return status(Path(f"/proc/{pid}/status"), "VmHWM") / 1024


def status(path: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", path.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def commits(database: Path) -> int:
    """The change counter in the header of the WAL index (wal.c: WalIndexHdr.iChange).

    Only for a database that this process has not open itself: closing the file here would drop
    the locks SQLite holds on it.
    """
    header = Path(f"{database}-shm").read_bytes()[:12]
    return int.from_bytes(header[8:12], "little")


def wal_bytes(database: Path) -> int:
    return Path(f"{database}-wal").stat().st_size
