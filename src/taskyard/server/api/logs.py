"""What the bodies of a task have said: page by page, or as they say it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation
from litestar.response import Stream

from taskyard.domain.errors import NotFound, StoreError
from taskyard.domain.logs import PAGE_LINES, Level, LogLine, with_gaps
from taskyard.domain.task import Task
from taskyard.engine.veil import Veil
from taskyard.server import cursor as cursors
from taskyard.server import limits
from taskyard.server import streams as streaming
from taskyard.server.api.session import TheKeyring
from taskyard.server.asks import Filter, InPath, TheYard, viewer
from taskyard.server.following import Follower, Following
from taskyard.server.streams import LastEventId, TheStreams, event
from taskyard.server.words import Moment, iso, json_of, name_in
from taskyard.yard import Yard

TheFollowing = SkipValidation[NamedDependency[Following]]
Attempt = Annotated[int | None, QueryParameter(required=False, ge=1, le=limits.MAX_MARK)]
Lines = Annotated[int, QueryParameter(ge=1, le=PAGE_LINES)]

_LEFT_OUT = re.compile(r"( … [\d,]+ bytes and more are left out … )")  # as domain/logs.py has it


class LogLineView(msgspec.Struct, frozen=True):
    attempt: int
    number: int  # among the lines of its attempt
    at: Moment
    level: Level
    text: str


class LogsPage(msgspec.Struct, frozen=True):
    items: list[LogLineView]
    next: str | None  # `after` of the next page


@get("/{task_id:str}/logs", opt=viewer, summary="What a task has said, the oldest first")
async def task_logs(
    yard: TheYard,
    task_id: InPath,
    attempt: Attempt = None,
    after: Filter = None,
    limit: Lines = 500,
) -> LogsPage:
    """All attempts that are kept, or one. In the place of lines that were dropped is one that says
    how many they were."""
    task = await yard.get(name_in(task_id))
    start = max(cursors.read_mark(after), (attempt or 0, 0))
    found = await yard.store.task_logs(task.id, after=start, limit=limit + 1)
    wanted = [line for line in found if attempt in (None, line.attempt)]
    lines = wanted[:limit]
    following = cursors.written_mark(lines[-1].mark) if len(wanted) > limit else None
    return LogsPage(_shown(with_gaps(lines, start), _veil(task)), following)


@get(
    "/{task_id:str}/logs/stream",
    opt=viewer,
    media_type=streaming.MEDIA_TYPE,
    summary="What a task says, as it does",
)
async def stream_task_logs(
    *,
    request: Request[Any, Any, Any],
    yard: TheYard,
    following: TheFollowing,
    streams: TheStreams,
    keyring: TheKeyring,
    task_id: InPath,
    last_event_id: LastEventId = None,
) -> Stream:
    """`lines` with an array of them, from the first that is kept, and `end` with the `state` of the
    task when it has ended and all was sent. With `Last-Event-ID` it goes on where it was."""
    task = await yard.get(name_in(task_id))
    follower = following.follow(task.id, cursors.read_event_id(last_event_id))
    watch = _Watching(following, follower, yard, task)
    return streaming.stream(watch, streams.enter(), keyring, request.user)


class _Watching:
    def __init__(self, following: Following, follower: Follower, yard: Yard, task: Task) -> None:
        self._following = following
        self._follower = follower
        self._yard = yard
        self._id = task.id
        self._attempt = task.attempt
        self._veil = _veil(task)
        self._has_ended = False

    @property
    def is_over(self) -> bool:
        return self._has_ended or self._following.is_over

    async def take(self) -> bytes:
        was_over = self._follower.is_over
        try:
            lines = await self._follower.take()
            if lines:
                await self._look_at_payload(lines[-1].attempt)
        except (NotFound, StoreError):  # pruned, or the store is away: who comes back is told
            self._has_ended = True
            return b""
        if lines:
            return event("lines", _shown(lines, self._veil), cursors.event_id(lines[-1].mark))
        self._has_ended = was_over
        state = self._follower.state
        return event("end", {"state": state}) if was_over and state else b""

    async def _look_at_payload(self, attempt: int) -> None:
        """It may have been replaced while the task waited."""
        if attempt > self._attempt:
            task = await self._yard.get(self._id)
            self._attempt, self._veil = task.attempt, _veil(task)

    async def wait(self, seconds: float) -> None:
        await self._follower.wait(seconds)

    def leave(self) -> None:
        self._follower.leave()


def _veil(task: Task) -> Veil:
    return Veil(json_of(task.payload))


def _shown(lines: Sequence[LogLine], veil: Veil) -> list[LogLineView]:
    return [
        LogLineView(line.attempt, line.number, iso(line.at), line.level, _text(line.text, veil))
        for line in lines
    ]


def _text(text: str, veil: Veil) -> str:
    """Where the middle is left out, a part of a secret may be left on either side."""
    if "left out" not in text:
        return veil.text(text)
    parts = _LEFT_OUT.split(text)
    cut = len(parts) > 1
    return "".join(
        part if _LEFT_OUT.fullmatch(part) else veil.text(part, cut=cut) for part in parts
    )


routes = Router("/tasks", route_handlers=[task_logs, stream_task_logs], tags=["tasks"])
