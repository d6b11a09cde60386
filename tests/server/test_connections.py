"""What a caller may do to a connection of a server that runs by itself."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from taskyard.server import limits, streams
from taskyard.server.roles import Role
from tests.server.listening import listening, watching
from tests.server.place import Place

LOGIN = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(base: str) -> Ends:
    parts = urlsplit(base)
    assert parts.hostname is not None
    return await asyncio.open_connection(parts.hostname, parts.port)


async def said_again(writer: asyncio.StreamWriter, line: bytes, times: int) -> None:
    for _ in range(times):
        writer.write(line)
        await writer.drain()


UNFINISHED = {
    "nothing": b"",
    "half of a head": b"GET /healthz HTTP/1.1\r\nHo",
    "no body": LOGIN + b"Content-Length: 40\r\n\r\n",
    "half of a body": LOGIN + b'Content-Length: 40\r\n\r\n{"token": "',
    "a body without an end": LOGIN + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "a body behind the answer": (
        b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 40\r\n\r\n{"
    ),
    "half of a second one": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",
}


@pytest.mark.spec("security-11", part="HTTP")
@pytest.mark.parametrize("said", UNFINISHED.values(), ids=UNFINISHED)
async def test_whoever_does_not_finish_a_request_is_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(limits, "REQUEST_PATIENCE", 0.05)
    async with listening(place) as base:
        reader, writer = await connected(base)
        writer.write(said)
        await reader.read()  # until it is closed
        writer.close()


async def test_who_is_answered_for_long_is_not_cut_off(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REQUEST_PATIENCE", 0.01)
    async with listening(place) as base, watching(place, base) as watcher:
        for _ in range(2):
            await watcher.until("stats")


@pytest.mark.spec("security-11", part="HTTP")
async def test_whoever_does_not_read_is_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_PATIENCE", 0.05)
    left = asyncio.Event()
    leave = streams.Place.leave

    def leaving(seat: streams.Place) -> None:
        leave(seat)
        left.set()

    monkeypatch.setattr(streams.Place, "leave", leaving)
    shown = f"Authorization: Bearer {place.tokens[Role.VIEWER]}\r\n\r\n"
    async with listening(place) as base:
        reader, writer = await connected(base)
        writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n" + shown.encode())
        await reader.readuntil(b"retry:")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(20):
            place.server.feed.publish("tasks", {"ids": ["x" * 1_000_000]})
        await left.wait()
        writer.close()


@pytest.mark.spec("security-11", part="HTTP")
async def test_a_head_is_bounded_whatever_is_installed(place: Place) -> None:
    async with listening(place) as base:
        _, writer = await connected(base)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        line = b"X: " + b"a" * 10_000 + b"\r\n"
        with pytest.raises(ConnectionError):
            await said_again(writer, line, 10_000)


async def test_hanging_up_in_the_middle_is_no_bug(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    read = asyncio.Event()
    answered = asyncio.Event()
    inner = place.server._gate._inner

    async def watched(scope: object, receive: object, send: object) -> None:
        read.set()
        await inner(scope, receive, send)
        answered.set()

    place.server._gate._inner = watched
    async with listening(place) as base:
        _, writer = await connected(base)
        writer.write(LOGIN + b"Content-Length: 40\r\n\r\n{")
        await read.wait()
        writer.transport.abort()
        await answered.wait()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
