from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.http_load import Client, post

BODY = b'{"kind":"noop"}'


@asynccontextmanager
async def answering(*parts: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers each request in these pieces; its port, and what it was sent."""
    heard: list[bytes] = []
    talks: list[asyncio.Task[None]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                heard.append(head + await reader.readexactly(len(BODY)))
                for part in parts:
                    writer.write(part)
                    await writer.drain()
        writer.close()
        await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append(asyncio.create_task(talk(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], heard
        await asyncio.gather(*talks)


CREATED = (b"HTTP/1.1 201 Created\r\ncontent-", b"length: 7\r\n\r\n{", b'"a":1}')


async def test_every_answer_counts_once_however_it_comes() -> None:
    async with answering(*CREATED) as (port, heard):
        request = post(port, "/api/tasks", BODY, "t")
        client = Client(port, request, connections=3)
        load = await client.run(0.05)
        again = await client.run(0.05)
        client.close()
    assert load.answers >= 3
    assert client.answers == load.answers + again.answers == len(heard)
    assert set(heard) == {request}
    assert load.rate == load.answers / load.seconds


async def test_an_answer_that_is_not_201_ends_the_run() -> None:
    async with answering(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n") as (port, _):
        client = Client(port, post(port, "/api/tasks", BODY, "t"), connections=2)
        with pytest.raises(AssertionError, match="503"):
            await client.run(1.0)
        client.close()
