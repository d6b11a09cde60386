"""A real HTTP server with the moods of the world: busy, limiting, slow, silent, sometimes fine."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

EPISODE = b"la" * 40_000
PIECE = 8_000

# Feeds by subscription: what becomes of each episode, in words that stand in its address.
FEEDS = {
    "news": ["fine-1", "fine-2", "fine-3"],
    "music": ["busy-1", "fine-4", "limited-1"],
    "films": ["slow-1", "missing-1"],
    "talks": ["silent-1", "fine-5"],
}


class MediaServer:
    """GET /feeds/{subscription} and /episodes/{episode}; `async with` gives its address."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readline():
                headers = await _headers(reader)
                await self._answer(request.split()[1].decode(), headers, reader, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self,
        path: str,
        headers: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.asked[path] += 1
        what, _, name = path.strip("/").partition("/")
        if what == "feeds" and name in FEEDS:
            _send(writer, 200, json.dumps(FEEDS[name]).encode())
        elif what == "episodes" and name.startswith("silent"):
            await reader.read()  # until the other side has enough of it
        elif what == "episodes":
            await self._episode(name, headers, reader, writer)
        else:
            _send(writer, 404, b"no such thing")

    async def _episode(
        self,
        name: str,
        headers: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        times = self.asked[f"/episodes/{name}"]
        match name.partition("-")[0]:
            case "busy" if times <= 2:
                _send(writer, 503, b"come back later")
            case "limited" if times == 1:
                _send(writer, 429, b"not so fast", "Retry-After: 1")
            case "missing":
                _send(writer, 404, b"gone")
            case mood:
                pieces = _pieces(headers, seconds=6.0 if mood == "slow" else 0.2)
                async for piece in pieces:
                    if reader.at_eof():
                        return  # the other side has gone
                    writer.write(piece)
                    await writer.drain()


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    found: dict[str, str] = {}
    while (line := (await reader.readline()).decode().strip()) != "":
        name, _, value = line.partition(":")
        found[name.lower()] = value.strip()
    return found


def _send(writer: asyncio.StreamWriter, status: int, body: bytes, *headers: str) -> None:
    head = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", *headers]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)


async def _pieces(headers: dict[str, str], *, seconds: float) -> AsyncIterator[bytes]:
    """The whole answer, slowly; from the middle on if it was asked for."""
    begin = int(headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
    body = EPISODE[begin:]
    yield f"HTTP/1.1 {206 if begin else 200} -\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]
        await asyncio.sleep(seconds / (len(EPISODE) / PIECE))
