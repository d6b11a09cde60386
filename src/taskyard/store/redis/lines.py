"""Connections for scripts.

The driver's client takes more time for a call than a short script does, most of it to find the
connection it uses next; the connections themselves take little.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import Connection

# Whether there is something to read, or the end: then nobody may use it again. Since version 8 of
# the driver it has the other name.
_is_spent: Callable[[Any], Awaitable[bool]] = (
    getattr(Connection, "can_read", None) or Connection.can_read_destructive
)


def arguments(words: Sequence[bytes]) -> bytes:
    """Of a command, as they go over the wire."""
    return b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Lines:
    """Those that are not in use; whoever finds none makes one. They belong to one loop."""

    def __init__(self, kind: type[Connection], options: dict[str, Any]) -> None:
        self._make: Callable[[], Any] = functools.partial(kind, **options)
        self._idle: list[Any] = []
        self._row: _Row | None = None

    async def say(self, words: bytes) -> Any:
        """Send a message; answers what the server answers, or raises it."""
        line = await self._line()
        try:
            await line.send_packed_command(words, check_health=False)
            answer = await line.read_response()
        except redis_errors.ResponseError:
            self._idle.append(line)
            raise
        except BaseException:  # somebody else would get the answer that is still to come
            await hang_up(line)
            raise
        self._idle.append(line)
        return answer

    async def say_in_order(self, words: bytes) -> Any:
        """The same, behind whatever was said like this before and has not been answered."""
        row = self._row
        if row is None or not row.is_whole:
            row = self._row = _Row(self._line)
        try:
            return await row.say(words)
        finally:
            if row is self._row and row.is_empty:
                self._row = None
                if row.is_whole:
                    self._idle.append(row.line)

    async def hang_up(self) -> None:
        """Those that are in use come back by themselves."""
        idle, self._idle = self._idle, []
        for line in idle:
            await hang_up(line, at_once=False)

    async def _line(self) -> Any:
        while self._idle:
            line = self._idle.pop()
            with contextlib.suppress(redis_errors.ConnectionError, OSError):
                if not await _is_spent(line):
                    return line
            await hang_up(line)  # the server has left it
        line = self._make()
        try:
            await line.connect()
        except BaseException:
            await hang_up(line)
            raise
        return line


class _Row:
    """Messages on one line, each sent behind the last one and answered after it."""

    def __init__(self, find_line: Callable[[], Awaitable[Any]]) -> None:
        self.line: Any = None
        self.is_whole = True
        self._find_line = find_line
        self._messages = 0
        self._sending, self._reading = asyncio.Lock(), asyncio.Lock()  # first come, first served

    @property
    def is_empty(self) -> bool:
        return self._messages == 0

    async def say(self, words: bytes) -> Any:
        self._messages += 1
        try:
            async with self._sending:
                self._refuse_if_broken()
                self.line = self.line or await self._find_line()
                await self.line.send_packed_command(words, check_health=False)
            async with self._reading:
                self._refuse_if_broken()
                return await self.line.read_response()
        except redis_errors.ResponseError:
            raise
        except BaseException:  # whoever stands behind would get the answer that is still to come
            self.is_whole = False
            if self.line is not None:
                await hang_up(self.line)
            raise
        finally:
            self._messages -= 1

    def _refuse_if_broken(self) -> None:
        if not self.is_whole:
            raise redis_errors.ConnectionError("the message before this one had no answer")


async def hang_up(line: Any, *, at_once: bool = True) -> None:
    with contextlib.suppress(redis_errors.RedisError, OSError):
        await line.disconnect(nowait=at_once)
