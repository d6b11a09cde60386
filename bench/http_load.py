"""A client that costs next to nothing: the same bytes again and again on some connections.

It knows of HTTP what these answers need: a status line, headers with a content length, a body. A
real client costs as much as the server it measures, on the same two cores, and would make any two
servers look alike.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

CONNECTIONS = 64
HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length: "


class Load(msgspec.Struct, frozen=True):
    """What came of one run."""

    answers: int
    seconds: float
    own_cpu: float  # share of a core that this client took

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


class Client:
    """Open connections to one server, kept over all runs."""

    def __init__(self, port: int, request: bytes, connections: int = CONNECTIONS) -> None:
        self._port = port
        self._request = request
        self._count = connections
        self._lines: list[Line] = []
        self.answers = 0

    async def run(self, seconds: float) -> Load:
        """On every connection one request after the other, each after the answer to the last."""
        loop = asyncio.get_running_loop()
        if not self._lines:
            for _ in range(self._count):
                _, line = await loop.create_connection(
                    lambda: Line(self._request), "127.0.0.1", self._port
                )
                self._lines.append(line)
        began, cpu = time.perf_counter(), time.process_time()
        answers = await asyncio.gather(*(line.ask_until(began + seconds) for line in self._lines))
        took, used = time.perf_counter() - began, time.process_time() - cpu
        self.answers += sum(answers)
        return Load(sum(answers), took, used / took)

    def close(self) -> None:
        for line in self._lines:
            line.close()


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._heard = b""
        self._end = 0.0
        self._answers = 0
        self._over: asyncio.Future[int] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def ask_until(self, end: float) -> int:
        """How many answers came; each must be 201."""
        assert self._transport is not None
        self._end, self._answers = end, 0
        self._over = asyncio.get_running_loop().create_future()
        self._transport.write(self._request)
        return await self._over

    def data_received(self, data: bytes) -> None:
        self._heard = self._heard + data if self._heard else data
        head = self._heard.find(HEAD_END)
        if head < 0:
            return
        begin = self._heard.find(LENGTH, 0, head) + len(LENGTH)
        body = int(self._heard[begin : self._heard.find(b"\r\n", begin)])
        whole = head + len(HEAD_END) + body
        if len(self._heard) < whole:
            return
        assert self._transport is not None
        assert self._over is not None
        if len(self._heard) > whole or not self._heard.startswith(b"HTTP/1.1 201 "):
            self._over.set_exception(AssertionError(f"not the answer hoped for: {self._heard!r}"))
            return
        self._heard = b""
        self._answers += 1
        if time.perf_counter() < self._end:
            self._transport.write(self._request)
        else:
            self._over.set_result(self._answers)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(exc or ConnectionResetError("the server hung up"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def post(port: int, path: str, body: bytes, token: str) -> bytes:
    """The bytes of a request."""
    return (
        f"POST {path} HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"\r\n"
    ).encode() + body
