"""Events as they come: a stream of server-sent events that can be taken up again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.background_tasks import BackgroundTask
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, SkipValidation
from litestar.response import Stream

from taskyard.server.api.session import TheKeyring
from taskyard.server.asks import viewer
from taskyard.server.feed import Feed
from taskyard.server.keyring import Keyring
from taskyard.server.problems import Refusal
from taskyard.server.roles import Caller

HEARTBEAT = 15.0  # seconds
LOOK_AT_TOKEN = 1.0  # seconds
RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser comes back

TheFeed = SkipValidation[NamedDependency[Feed]]


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


@get("/events", opt=viewer, media_type="text/event-stream", summary="What changes, as it does")
async def events(
    *,
    request: Request[Any, Any, Any],
    feed: TheFeed,
    streams: TheStreams,
    keyring: TheKeyring,
    last_event_id: LastEventId = None,
) -> Stream:
    """`tasks`, `lanes`, `nodes` and `stats`; `reset` tells a watcher that it has missed something
    and should look at everything anew. With `Last-Event-ID` it goes on where it was."""
    place = streams.enter()
    watching = _Watching(feed, place, keyring, request.user)
    return Stream(
        watching.stream(_number(last_event_id)),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
        background=BackgroundTask(place.leave),  # also of one who left before the first event
    )


class _Watching:
    def __init__(self, feed: Feed, place: Place, keyring: Keyring, caller: Caller) -> None:
        self._feed = feed
        self._place = place
        self._keyring = keyring
        self._caller = caller

    async def stream(self, last: int | None) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces(last):
                yield piece
        finally:
            self._place.leave()

    async def _pieces(self, last: int | None) -> AsyncIterator[bytes]:
        feed, quiet_since = self._feed, time.monotonic()
        seen = feed.last if last is None else last
        yield RETRY
        while not feed.is_over and self._keyring.still_good(self._caller):
            found = feed.since(seen)
            if found is None:
                yield _reset(feed.last)
                seen = feed.last
            elif found:
                yield b"".join(event.encoded() for event in found)
                seen = found[-1].no
            elif time.monotonic() - quiet_since >= HEARTBEAT:
                yield b": still here\n\n"
            else:
                await feed.wait(LOOK_AT_TOKEN)
                continue
            quiet_since = time.monotonic()


def _reset(no: int) -> bytes:
    data = msgspec.json.encode({"last": no})
    return b"id: %d\nevent: reset\ndata: %s\n\n" % (no, data)


def _number(last_event_id: str | None) -> int | None:
    """What is no number of ours is of another life: it is told to begin anew."""
    if not last_event_id:
        return None
    known = last_event_id.isascii() and last_event_id.isdigit()
    return int(last_event_id) if known else -1


routes = Router("/", route_handlers=[events], tags=["events"])
