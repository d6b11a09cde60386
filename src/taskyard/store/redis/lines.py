"""Connections for scripts.

The driver's client takes more time for a call than a short script does, most of it to find the
connection it uses next; the connections themselves take little.
"""

from __future__ import annotations

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


async def hang_up(line: Any, *, at_once: bool = True) -> None:
    with contextlib.suppress(redis_errors.RedisError, OSError):
        await line.disconnect(nowait=at_once)
