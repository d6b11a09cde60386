"""Who this process is, and whether another one is provably gone."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from taskyard.domain.node import ProcessIdentity

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    try:
        started = _start_of(pid) or 0
    except OSError:
        started = 0  # unknown: nobody will prove us dead
    return ProcessIdentity(_host(), _boot(), pid, started)


def new_node_id() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def provably_dead(process: ProcessIdentity) -> bool:
    """True only if that process can no longer exist: same host, and gone or replaced.

    A process number is used again sooner or later; its start time tells the two apart. Another
    boot proves nothing: names of hosts are used twice, and that boot may be another machine's.
    """
    if process.host != _host() or process.boot != _boot() or process.started == 0:
        return False
    try:
        return _start_of(process.pid) != process.started
    except OSError:
        return False  # it cannot be looked at: no proof


def _host() -> str:
    """The host as far as process numbers are concerned: containers have their own."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}".strip()


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None if there is no such process.

    OSError if that cannot be told.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        if _exists(pid):
            raise  # there is no /proc, or it hides the processes of others
        return None
    # The name may contain spaces and brackets: fields are counted from its closing one.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, ticks = fields[0], int(fields[19])
    return None if state == "Z" else ticks


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
