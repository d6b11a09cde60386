"""Events for those who watch: numbered, kept for a while, so that nobody misses any.

A watcher that was away goes on behind the last number it saw, or is told to begin anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from typing import Any

import msgspec

KEPT = 1000


class Event(msgspec.Struct, frozen=True):
    no: int
    name: str
    data: bytes  # JSON

    def encoded(self) -> bytes:
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.no, self.name.encode(), self.data)


class Feed:
    def __init__(self, kept: int = KEPT) -> None:
        self._kept: deque[Event] = deque(maxlen=kept)
        # Somewhere: a watcher of an earlier life, or of a server beside this one, whose number it
        # brings, is not taken for one of ours.
        self.last = secrets.randbits(32) << 20
        self._news = asyncio.Event()
        self.is_over = False

    def publish(self, name: str, data: Any) -> None:
        self.last += 1
        self._kept.append(Event(self.last, name, msgspec.json.encode(data)))
        self._wake()

    def since(self, no: int) -> list[Event] | None:
        """What came after this number; None if that is not known any more, or never was."""
        if no == self.last:
            return []
        if not self._kept or not self._kept[0].no - 1 <= no <= self.last:
            return None
        return [event for event in self._kept if event.no > no]

    async def wait(self, seconds: float) -> None:
        """For something new, at most so long."""
        news = self._news
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    def begin(self) -> None:
        self.is_over = False

    def end(self) -> None:
        """No more will come: those who watch may go."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
