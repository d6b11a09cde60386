"""The server of a place at a real port, in this process: for what streams."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from taskyard.server.roles import Role
from taskyard.server.run import Bind, _Uvicorn, _uvicorn_config
from tests.server.place import Place


@asynccontextmanager
async def listening(place: Place) -> AsyncIterator[str]:
    """Its base URL."""
    sock = socket.create_server(("127.0.0.1", 0))
    http = _Uvicorn(_uvicorn_config(place.server, Bind()))
    answering = asyncio.create_task(http.serve([sock]))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        place.server.end_streams()
        http.should_exit = True
        await answering
        sock.close()


class Watcher:
    """One who reads a stream of events."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> dict[str, str]:
        """The next event, or comment under the name ''."""
        found: dict[str, str] = {}
        async for line in self._lines:
            if not line and found:
                return found
            name, _, value = line.partition(":")
            found[name] = value.strip()
        raise EOFError

    async def until(self, name: str) -> dict[str, str]:
        while True:
            event = await self.next()
            if event.get("event") == name:
                return event

    async def end(self) -> None:
        """Read on until the server closes."""
        async for _ in self._lines:
            pass

    async def rest(self) -> list[dict[str, str]]:
        """All that come until then."""
        found = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(await self.next())
        return found


@asynccontextmanager
async def watching(
    place: Place,
    base: str,
    role: Role = Role.VIEWER,
    last: str | None = None,
    path: str = "/api/events",
) -> AsyncIterator[Watcher]:
    shown = {"Authorization": f"Bearer {place.tokens[role]}"}
    if last is not None:
        shown["Last-Event-ID"] = last
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("GET", f"{base}{path}", headers=shown) as answer,
    ):
        yield Watcher(answer)
