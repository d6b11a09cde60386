"""Streams of server-sent events: so many at once, never silent for long, and only as long as the
token of the one who watches is good.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated, Protocol

import msgspec
from litestar.background_tasks import BackgroundTask
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, SkipValidation
from litestar.response import Stream

from taskyard.server.keyring import Keyring
from taskyard.server.problems import Refusal
from taskyard.server.roles import Caller

HEARTBEAT = 15.0  # seconds
LOOK_AT_TOKEN = 1.0  # seconds
MEDIA_TYPE = "text/event-stream"
RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser comes back

# JSON leaves these as they are; some clients take them for the end of a line, some terminals for
# the beginning of a command.
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


class Watch(Protocol):
    """What one watcher is sent."""

    @property
    def is_over(self) -> bool: ...

    async def take(self) -> bytes:
        """What there is to send now; empty: nothing."""

    async def wait(self, seconds: float) -> None:
        """For something new, at most so long."""

    def leave(self) -> None:
        """Nobody watches any more; may be said twice."""


class Streams:
    """How many are open now."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.open = 0

    def enter(self) -> Place:
        if self.open >= self._most:
            raise Refusal(429, "too_many", f"there are {self._most} streams already")
        self.open += 1
        return Place(self)


class Place:
    """Of one stream among them, given back once however often that is said."""

    def __init__(self, streams: Streams) -> None:
        self._streams: Streams | None = streams

    def leave(self) -> None:
        if self._streams is not None:
            self._streams.open -= 1
            self._streams = None


TheStreams = SkipValidation[NamedDependency[Streams]]
LastEventId = Annotated[
    str | None, HeaderParameter(name="Last-Event-ID", required=False, max_length=30)
]


def event(name: str, data: object, number: str = "") -> bytes:
    """`number` is what a watcher that comes back says as its Last-Event-ID."""
    text = _CONTROLS.sub(_escaped, msgspec.json.encode(data))
    place = f"id: {number}\n" if number else ""
    return f"{place}event: {name}\ndata: ".encode() + text + b"\n\n"


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())


def stream(watch: Watch, place: Place, keyring: Keyring, caller: Caller) -> Stream:
    def leave() -> None:
        watch.leave()
        place.leave()

    async def sending() -> AsyncIterator[bytes]:
        try:
            async for piece in _pieces(watch, keyring, caller):
                yield piece
        finally:
            leave()

    return Stream(
        sending(),
        media_type=MEDIA_TYPE,
        headers={"X-Accel-Buffering": "no"},
        background=BackgroundTask(leave),  # also of one who left before the first event
    )


async def _pieces(watch: Watch, keyring: Keyring, caller: Caller) -> AsyncIterator[bytes]:
    quiet_since = time.monotonic()
    yield RETRY
    while not watch.is_over and keyring.still_good(caller):
        piece = await watch.take()
        if piece:
            yield piece
        elif time.monotonic() - quiet_since >= HEARTBEAT:
            yield b": still here\n\n"
        else:
            await watch.wait(LOOK_AT_TOKEN)
            continue
        quiet_since = time.monotonic()
