"""Calls of a thread that owns a connection, and the way of their answers back to those who wait.

A loop is woken through a descriptor of ours: `call_soon_threadsafe` sends through a socket and
receives from it until there is nothing left, which takes an asyncio loop 25 µs more for each
answer, as long as all statements of a small call together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from taskyard.store.sqlite.tx import Tx

T = TypeVar("T")


class Call(Generic[T]):
    """One job and where its answer goes."""

    __slots__ = ("_answer", "_future", "box", "error", "job")

    def __init__(
        self,
        job: Callable[[Tx], T],
        future: asyncio.Future[T] | Future[T],
        box: Letterbox | None,  # of the loop that waits; None: a thread does
    ) -> None:
        self.job = job
        self.box = box
        self.error: BaseException | None = None
        self._future = future
        self._answer: T

    def answers(self, answer: T) -> None:
        self._answer = answer

    def deliver(self) -> None:
        """Runs on the loop of the one who waits, or on our thread for a blocking call."""
        if self._future.done():
            return  # whoever asked has gone; what was done stays done
        if self.error is not None:
            self._future.set_exception(self.error)
        else:
            self._future.set_result(self._answer)


class Letterbox:
    """Where answers lie until their loop takes them out.

    It knows nothing that would keep its loop alive, and lives as long: so the descriptor is closed
    when nobody rings any more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._answered: deque[Call[Any]] = deque()
        self._bell = _bell(loop, self._take_out)
        if self._bell is not None:
            # Not when the program ends: threads may ring until then.
            weakref.finalize(self, os.close, self._bell).atexit = False

    def put(self, calls: Iterable[Call[Any]]) -> None:
        """From any thread."""
        self._answered.extend(calls)
        if self._bell is not None:
            with contextlib.suppress(OSError):  # whatever it is, the thread must go on
                os.eventfd_write(self._bell, 1)
        elif (loop := self._loop()) is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits there any more
                loop.call_soon_threadsafe(self._take_out)

    def _take_out(self) -> None:
        if self._bell is not None:
            os.eventfd_read(self._bell)
        answered = self._answered
        while answered:
            answered.popleft().deliver()


def _bell(loop: asyncio.AbstractEventLoop, rung: Callable[[], None]) -> int | None:
    """None where the system has none, or has no more, or the loop can only watch sockets."""
    try:
        bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except (AttributeError, OSError):
        return None
    try:
        loop.add_reader(bell, rung)
    except NotImplementedError:
        os.close(bell)
        return None
    return bell


# Their loops keep them: else an answer that nobody takes out would keep its loop for ever.
_boxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Letterbox]] = (
    weakref.WeakKeyDictionary()
)


def letterbox_of(loop: asyncio.AbstractEventLoop) -> Letterbox:
    """That of the loop that runs: one, however many stores it uses."""
    known = _boxes.get(loop)
    box = None if known is None else known()
    if box is None:
        box = Letterbox(loop)
        _boxes[loop] = weakref.ref(box)
    return box


def deliver(group: list[Call[Any]]) -> None:
    """One wake-up of each waiting loop for the whole group."""
    if len(group) == 1 and group[0].box is not None:
        group[0].box.put(group)
        return
    by_loop: dict[Letterbox, list[Call[Any]]] = {}
    for call in group:
        if call.box is None:
            call.deliver()
        else:
            by_loop.setdefault(call.box, []).append(call)
    for box, calls in by_loop.items():
        box.put(calls)
