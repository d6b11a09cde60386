"""Processes and their descendants, as /proc tells them; without /proc there are none to see."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(msgspec.Struct, frozen=True, gc=False):
    pid: int
    parent: int
    live: bool  # not a zombie


def processes() -> dict[int, Process]:
    """All of them, in one pass."""
    try:
        names = [entry.name for entry in _PROC.iterdir()]
    except OSError:
        return {}
    found = (_look(int(name)) for name in names if name.isdigit())
    return {each.pid: each for each in found if each is not None}


def _look(pid: int) -> Process | None:
    stat = _read(pid, "stat")
    # The name may contain spaces and brackets: fields are counted from its closing one.
    fields = stat[stat.rfind(b")") + 2 :].split(None, 2)
    if len(fields) < 2:
        return None
    return Process(pid, int(fields[1]), fields[0] not in (b"Z", b"X"))


def descendants(of: int, table: Mapping[int, Process]) -> list[int]:
    """Live ones, children before grandchildren."""
    children: dict[int, list[Process]] = {}
    for each in table.values():
        children.setdefault(each.parent, []).append(each)
    found: list[int] = []
    level = children.get(of, [])
    while level:
        found += [each.pid for each in level if each.live]
        level = [child for each in level for child in children.get(each.pid, [])]
    return found


def resident(pids: Iterable[int]) -> int:
    """Bytes these have in memory; what they share counts for each of them."""
    pages = (_read(pid, "statm").split(None, 2) for pid in pids)
    return sum(int(each[1]) for each in pages if len(each) > 1) * _PAGE


def proportional(pids: Iterable[int]) -> int:
    """Bytes these have in memory; of what is shared, each its part. Slow: walks their maps."""
    return sum(_part(pid) for pid in pids)


def _part(pid: int) -> int:
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident((pid,))


def _read(pid: int, name: str) -> bytes:
    """Empty if the process has gone, or is not ours to look at."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
