"""What Linux does for us at the death of a process, and elsewhere nobody does."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys
from pathlib import Path

IS_LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_F_SETSIG = 10


def adopt_orphans() -> None:
    """Descendants whose parents die become our children, however they were detached."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Get this signal when the thread that made this process ends; at once if it has ended."""
    _prctl(_PR_SET_PDEATHSIG, sig)
    if os.getppid() != parent:
        os.kill(os.getpid(), sig)


def die_with_writer(lifeline: int) -> None:
    """SIGKILL this process group the moment the last writer of this pipe is gone.

    The kernel does it while that process exits: before anybody can see it dead, and whether or not
    anyone between is alive to notice. The pipe is opened anew because the owner of the signal
    belongs to the open file, which all children would share.
    """
    if not IS_LINUX:
        return
    own = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(own, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(own, fcntl.F_SETOWN, -os.getpgid(0))
    fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    if _has_no_writer(own):
        os.killpg(0, signal.SIGKILL)  # it went before we could be told


def _has_no_writer(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False


def be_first_when_memory_ends() -> None:
    """If the kernel has to kill someone, let it be a body rather than its worker."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def bound_memory(limit: int) -> None:
    """What can be reserved between two looks of whoever watches the memory that is used."""
    if IS_LINUX and limit:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        bound = 4 * limit + 1_000_000_000
        if hard == resource.RLIM_INFINITY or bound < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))


def _prctl(option: int, value: int) -> None:
    if IS_LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
