"""No connection is open at the moment of a fork.

SQLite remembers which locks of a file its process holds, and the kernel gives a forked child none
of them: a child that found such memories would read and write a file it has not locked. So before
a fork every connection is closed, and the parent opens its own again afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet


class Pausing(Protocol):
    """Something that has a connection of its own."""

    def pause(self) -> None:
        """Close it, and open none until `resume`; returns when it is closed."""

    def resume(self) -> None:
        """The fork is over."""


class _Forks:
    def __init__(self) -> None:
        self.lock = threading.Lock()  # held during a fork
        self.holders: WeakSet[Pausing] = WeakSet()
        self.paused: list[Pausing] = []

    def before(self) -> None:
        self.lock.acquire()
        self.paused = list(self.holders)
        for holder in self.paused:
            holder.pause()

    def after_in_parent(self) -> None:
        for holder in self.paused:
            holder.resume()
        self.paused = []
        self.lock.release()

    def after_in_child(self) -> None:
        """The threads that had the connections are not here: whoever needs one makes it anew."""
        self.lock, self.holders, self.paused = threading.Lock(), WeakSet(), []


_forks = _Forks()
os.register_at_fork(
    before=_forks.before,
    after_in_parent=_forks.after_in_parent,
    after_in_child=_forks.after_in_child,
)


def no_fork() -> threading.Lock:
    """`with no_fork():` there is no fork; for connections that are closed again inside."""
    return _forks.lock


@contextmanager
def minding(holder: Pausing) -> Iterator[None]:
    """From inside on `holder` is asked to pause before each fork."""
    with _forks.lock:
        _forks.holders.add(holder)
        yield
