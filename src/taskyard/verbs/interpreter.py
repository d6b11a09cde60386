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
    turn, young = sys.getswitchinterval(), gc.get_threshold()
    if turn == USUAL_TURN:
        sys.setswitchinterval(TURN)
    if young[0] in USUAL_YOUNG:
        gc.set_threshold(YOUNG, *young[1:])
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        gc.set_threshold(*young)
