"""Keeps the time of calls, with one timer for all of them.

Nearly every call ends long before its time, and to set a timer for each and take it back, as the
driver does, is a twentieth of what a small call costs its caller.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TypeAlias

Calls: TypeAlias = "dict[Call, None]"  # in the order they began, and so in that of their ends


class Watch:
    """Of calls that may take so many seconds each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None  # that has a timer of ours
        self._calls: Calls = {}

    def call(self) -> Call:
        """To be entered at once; raises TimeoutError, as asyncio.timeout does."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._calls = loop, {}
            loop.call_later(self._seconds, self._look, loop, self._calls)
        return Call(self._calls, loop.time() + self._seconds)

    def _look(self, loop: asyncio.AbstractEventLoop, calls: Calls) -> None:
        now = loop.time()
        for call in list(calls):
            if call.until > now:
                loop.call_at(call.until, self._look, loop, calls)
                return
            call.give_up()
        if self._loop is loop:
            self._loop = None


class Call:
    __slots__ = ("_calls", "_cancelled_before", "_is_late", "_task", "until")

    def __init__(self, calls: Calls, until: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.until = until
        self._calls = calls
        self._task = task
        self._cancelled_before = task.cancelling()
        self._is_late = False

    def give_up(self) -> None:
        self._is_late = True
        del self._calls[self]
        self._task.cancel()

    def __enter__(self) -> None:
        self._calls[self] = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._is_late:
            del self._calls[self]
        elif self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error
