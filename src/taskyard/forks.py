"""A forked child leaves what its parent had open alone, and makes its own.

Sockets and threads of the parent are of no use in the child. Nothing of it may even be closed or
collected there: that would say goodbye to a server in the parent's name.
"""

from __future__ import annotations

import ctypes
import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    def begin_anew(self) -> None:
        """This is another process now: forget what belongs to its parent."""


_holders: WeakSet[Forked] = WeakSet()


def mind_forks(holder: Forked) -> None:
    """From now on `holder` is told in every child."""
    _holders.add(holder)


def leave_behind(*things: object) -> None:
    """Keep these from being collected, also when the interpreter ends."""
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _tell() -> None:
    for holder in list(_holders):
        holder.begin_anew()


os.register_at_fork(after_in_child=_tell)
