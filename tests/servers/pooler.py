"""A pooler of transactions in front of a real PostgreSQL server, on the real wire protocol.

As with pgbouncer in transaction mode, a client has a session of the server from its first message
until the server says that no transaction is open; then the session is another's. Harder than
pgbouncer, it hands out the session that has rested longest, so that whoever leaves something
behind in one finds it missing in the next. Every user is let in: the server must trust them too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

T = TypeVar("T")

_PROTOCOL = 3 << 16
_SSL_REQUEST, _CANCEL_REQUEST, _GSS_REQUEST = 80877103, 80877102, 80877104
_ROUNDS = frozenset(b"QSF")  # simple query, Sync, function call: each is answered by a ready
_READY, _KEY, _PARAMETER, _TERMINATE = b"ZKSX"
_IDLE = b"I"
_PATIENCE = 30.0


class Session(NamedTuple):
    """A connection to the server, past its welcome."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    parameters: bytes
    key: bytes


class Pooler:
    """Lives in a thread of its own until the block ends."""

    def __init__(self, port: int, sessions: int = 3) -> None:
        self._target = port
        self._size = sessions
        self._loop = asyncio.new_event_loop()
        self._resting: asyncio.Queue[Session] = asyncio.Queue()
        self._numbers = itertools.count(1 << 24)  # no process of a server has such a number
        self._working: dict[bytes, Session] = {}  # by the number its client was told
        self.said: list[bytes] = []  # the messages of all clients

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, name="pooler", daemon=True)
        self._thread.start()
        self.port = self._run(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, query: str = "") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres{query}"

    def _run(self, coroutine: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE)

    async def _open(self) -> int:
        sessions = [await self._connect() for _ in range(self._size)]
        for session in sessions:
            self._resting.put_nowait(session)
        self._parameters = sessions[0].parameters
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        while not self._resting.empty():
            session = self._resting.get_nowait()
            session.writer.transport.abort()
        await asyncio.sleep(0)  # lets the sockets be closed

    async def _connect(self) -> Session:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        words = b"user\0postgres\0database\0postgres\0client_encoding\0UTF8\0\0"
        writer.write(struct.pack("!ii", len(words) + 8, _PROTOCOL) + words)
        parameters, key = b"", b""
        try:
            while (message := await _message(reader))[0] != _READY:
                if message[0] == _PARAMETER:
                    parameters += message
                elif message[0] == _KEY:
                    key = message[5:]
        except BaseException:
            writer.transport.abort()
            raise
        return Session(reader, writer, parameters, key)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                number = await self._welcome(reader, writer)
                if number is not None:
                    await self._serve(number, reader, writer)
        finally:
            writer.transport.abort()

    async def _serve(
        self, number: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        asked = asyncio.create_task(self._heard(reader))
        try:
            while True:
                await asyncio.wait({asked})
                asked.result()
                session = await self._resting.get()
                self._working[number] = session
                try:
                    asked = await self._transaction(session, asked, reader, writer)
                except BaseException:
                    session.writer.transport.abort()  # it was in the middle of something
                    session = await self._connect()
                    raise
                finally:
                    del self._working[number]
                    self._resting.put_nowait(session)
        finally:
            asked.cancel()

    async def _transaction(
        self,
        session: Session,
        asked: asyncio.Task[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> asyncio.Task[bytes]:
        """Pass on until the server has answered everything and no transaction is open."""
        answered = asyncio.create_task(_message(session.reader))
        rounds = 0
        try:
            while True:
                await asyncio.wait({asked, answered}, return_when=asyncio.FIRST_COMPLETED)
                if asked.done():
                    question = asked.result()
                    rounds += question[0] in _ROUNDS
                    session.writer.write(question)
                    asked = asyncio.create_task(self._heard(reader))
                if answered.done():
                    answer = answered.result()
                    writer.write(answer)
                    if answer[0] == _READY:
                        rounds -= 1
                        if rounds == 0 and answer[5:] == _IDLE:
                            return asked
                    answered = asyncio.create_task(_message(session.reader))
        finally:
            answered.cancel()

    async def _heard(self, reader: asyncio.StreamReader) -> bytes:
        message = await _message(reader)
        if message[0] == _TERMINATE:
            raise ConnectionResetError
        self.said.append(message)
        return message

    async def _welcome(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """The number the client is told instead of that of the server's process."""
        while True:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            (code,) = struct.unpack_from("!i", body)
            if code == _CANCEL_REQUEST:
                await self._cancel(body[4:8])
                return None
            if code not in (_SSL_REQUEST, _GSS_REQUEST):
                break
            writer.write(b"N")
        number = struct.pack("!i", next(self._numbers))
        writer.write(b"R\0\0\0\x08\0\0\0\0" + self._parameters)
        writer.write(b"K\0\0\0\x0c" + number + b"\0\0\0\0" + b"Z\0\0\0\x05I")
        return number

    async def _cancel(self, number: bytes) -> None:
        session = self._working.get(number)
        if session is not None:
            _, writer = await asyncio.open_connection("127.0.0.1", self._target)
            writer.write(struct.pack("!ii", 16, _CANCEL_REQUEST) + session.key)
            await writer.drain()
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One letter, the length of what follows with itself, and what follows."""
    head = await reader.readexactly(5)
    (length,) = struct.unpack_from("!i", head, 1)
    return head + await reader.readexactly(length - 4)
