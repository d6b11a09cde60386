"""What a worker sets of the interpreter, in a process that it has for itself.

A program that has chosen for itself keeps what it chose.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# How long a thread of a worker waits until another that is busy lets it go on. A thread that writes
# to a file gives the interpreter away with every statement; bodies on the loop would give it back
# after Python's 5 ms, so that nothing is written while they run. Threads that only compute lose
# some per cent by it.
USUAL_TURN, TURN = 0.005, 0.0001

# After how many new objects those are looked for that keep each other alive. A worker holds a
# thousand tasks for some milliseconds: with Python's usual number they are looked at in vain, time
# and again, for a tenth of what a body costs.
USUAL_YOUNG, YOUNG = (700, 2_000), 10_000


@contextmanager
def tuned() -> Iterator[None]:
    with _short_turns(), _late_searches():
        yield


@contextmanager
def _short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    if before == USUAL_TURN:
        sys.setswitchinterval(TURN)
    ours = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == ours:  # and no body has chosen another
            sys.setswitchinterval(before)


@contextmanager
def _late_searches() -> Iterator[None]:
    before = gc.get_threshold()
    if before[0] in USUAL_YOUNG:
        gc.set_threshold(YOUNG, *before[1:])
    ours = gc.get_threshold()
    try:
        yield
    finally:
        if gc.get_threshold() == ours:
            gc.set_threshold(*before)
