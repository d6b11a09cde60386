"""Connections of a server that runs by itself: bounded in what they bring and in how long it takes.

The head of a request is read by h11, which refuses one of more than 64 KiB; other parsers that
uvicorn would take if they are installed collect whatever comes.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from taskyard.server import limits
from taskyard.server.together import Together


class Connection(H11Protocol):
    """Closed if the next request is not there, head and body, in time, and if nobody reads the
    answer. Whoever says nothing, or a byte now and then, or does not listen, would else keep a
    place for ever that others wait for."""

    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Together(transport, self.loop))
        self._waits_since = self.loop.time()
        self._check_in(limits.REQUEST_PATIENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._is_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(limits.ANSWER_PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._waits_since = self.loop.time()

    def _check_in(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._check)

    def _check(self) -> None:
        left = limits.REQUEST_PATIENCE
        if self._waits:
            left -= self.loop.time() - self._waits_since
        if left > 0:
            self._check_in(left)
        elif not self.transport.is_closing():
            self.transport.close()

    @property
    def _waits(self) -> bool:
        """For more from the caller; else it is our turn."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first one
        return cycle is None or cycle.response_complete or cycle.more_body
