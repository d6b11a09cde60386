"""A line between client and server that a test can spoil: hold, cut, slow, or lose answers.

It lives in a thread of its own, so that it goes on while the test waits in whatever way.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER for no time at all: closing sends RST
HINTS = (b"LISTEN ", b"SUBSCRIBE")  # what a connection says that is there to hear hints


class Proxy:
    """Everything passes, until the test says otherwise."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._lines: set[Line] = set()
        self._asking = asyncio.Event()  # requests pass
        self._answering = asyncio.Event()  # answers pass
        self.delay = 0.0  # seconds each piece waits
        self.losing = False  # answers are thrown away
        self.mute = False  # nothing passes on connections that are there for hints
        self.swallowed = 0  # bytes of answers and hints
        self._thread.start()
        self.port = self._ask(self._open)

    def let_pass(self) -> None:
        """What was held goes on."""
        self._loop.call_soon_threadsafe(self._asking.set)
        self._loop.call_soon_threadsafe(self._answering.set)

    def hold(self) -> None:
        """A black hole: connections are there, and nothing comes through in either direction."""
        self._loop.call_soon_threadsafe(self._asking.clear)
        self._loop.call_soon_threadsafe(self._answering.clear)

    def lead_to(self, port: int) -> None:
        """From now on connections are made to another server; those that are there stay."""
        self._target = port

    def cut(self) -> None:
        """Reset all connections; new ones may come at once."""
        self._ask(self._cut)

    def stop(self) -> None:
        self._ask(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, url: str) -> str:
        """The same store, through here."""
        return url.replace(f":{self._target}", f":{self.port}")

    @property
    def hint_lines(self) -> int:
        """How many connections are there for hints, and know that the server has heard so."""
        return sum(line.listens for line in list(self._lines))

    def _ask(self, function: Callable[[], object]) -> int:
        async def call() -> object:
            answer = function()
            return await answer if asyncio.iscoroutine(answer) else answer

        answer = asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)
        return answer if isinstance(answer, int) else 0

    async def _open(self) -> int:
        self._asking.set()
        self._answering.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def _cut(self) -> None:
        for line in list(self._lines):
            line.reset()

    async def _close(self) -> None:
        self._server.close()
        self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            try:
                far = await asyncio.open_connection("127.0.0.1", self._target)
            except OSError:
                _reset(writer)
                return
            line = Line(writer, far[1])
            self._lines.add(line)
            try:
                await asyncio.wait(
                    {
                        asyncio.create_task(self._requests(line, reader, far[1])),
                        asyncio.create_task(self._answers(line, far[0], writer)),
                    },
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                self._lines.discard(line)
                line.reset()

    async def _requests(
        self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                line.hints = line.hints or any(word in data.upper() for word in HINTS)
                await self._asking.wait()
                await asyncio.sleep(self.delay)
                if not (self.mute and line.hints):
                    writer.write(data)
                    await writer.drain()

    async def _answers(
        self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._answering.wait()
                await asyncio.sleep(self.delay)
                if self.losing or (self.mute and line.hints):
                    self.swallowed += len(data)
                else:
                    writer.write(data)
                    await writer.drain()
                    line.listens = line.hints


class Line:
    """One connection on its way."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._ends = (near, far)
        self.hints = False  # it has asked for them
        self.listens = False  # and was answered

    def reset(self) -> None:
        for end in self._ends:
            _reset(end)


def _reset(writer: asyncio.StreamWriter) -> None:
    found = writer.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
