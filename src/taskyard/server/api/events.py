"""Events as they come: a stream of server-sent events that can be taken up again."""

from __future__ import annotations

from typing import Any

from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.response import Stream

from taskyard.server import streams as streaming
from taskyard.server.api.session import TheKeyring
from taskyard.server.asks import viewer
from taskyard.server.feed import Feed
from taskyard.server.streams import LastEventId, TheStreams, event

TheFeed = SkipValidation[NamedDependency[Feed]]


@get("/events", opt=viewer, media_type=streaming.MEDIA_TYPE, summary="What changes, as it does")
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
    watch = _Watching(feed, _number(last_event_id))
    return streaming.stream(watch, streams.enter(), keyring, request.user)


class _Watching:
    def __init__(self, feed: Feed, last: int | None) -> None:
        self._feed = feed
        self._seen = feed.last if last is None else last

    @property
    def is_over(self) -> bool:
        return self._feed.is_over

    async def take(self) -> bytes:
        found = self._feed.since(self._seen)
        if found is None:
            self._seen = self._feed.last
            return event("reset", {"last": self._seen}, str(self._seen))
        if found:
            self._seen = found[-1].no
        return b"".join(one.encoded() for one in found)

    async def wait(self, seconds: float) -> None:
        await self._feed.wait(seconds)

    def leave(self) -> None:
        """The feed does not know who watches."""


def _number(last_event_id: str | None) -> int | None:
    """What is no number of ours is of another life: it is told to begin anew."""
    if not last_event_id:
        return None
    known = last_event_id.isascii() and last_event_id.isdigit()
    return int(last_event_id) if known else -1


routes = Router("/", route_handlers=[events], tags=["events"])
