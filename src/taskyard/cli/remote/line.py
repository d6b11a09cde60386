"""One connection of HTTP/1.1. Whatever may block does so in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")

TO_CONNECT = 10.0  # seconds


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes | None = None


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]  # their names in lower case
    content: bytes = b""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


class Line:
    """Kept open from one request to the next. When whoever waits for it is cancelled it hangs up
    for good, and what it was about to send is not sent."""

    def __init__(self, host: str, port: int | None, *, secure: bool) -> None:
        self._host = host
        self._port = port
        self._secure = secure
        self._open: http.client.HTTPConnection | None = None
        self._is_over = False

    async def ask(self, request: Request, patience: float | None) -> Answer:
        """The whole answer; each piece of it may take as long as `patience`."""
        return await self._apart(lambda: self._ask(request, patience))

    async def open(self, request: Request, patience: float | None) -> http.client.HTTPResponse:
        """An answer that is read with `next_line`, or with `rest`."""
        return await self._apart(lambda: self._begun(request, patience))

    async def next_line(self, answer: http.client.HTTPResponse) -> bytes:
        return await self._apart(answer.readline)

    async def rest(self, answer: http.client.HTTPResponse) -> bytes:
        return await self._apart(answer.read)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    async def _apart(self, work: Callable[[], T]) -> T:
        """The program need not wait for this thread when it ends: a name that is looked up, or a
        host that does not answer, cannot be told to stop."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        threading.Thread(target=_do, args=(work, done), daemon=True).start()
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        self._is_over = True
        if self._open is not None and self._open.sock is not None:
            with contextlib.suppress(OSError):
                self._open.sock.shutdown(socket.SHUT_RDWR)

    # --- in the thread ---

    def _ask(self, request: Request, patience: float | None) -> Answer:
        answer = self._begun(request, patience)
        return Answer(answer.status, names_lower(answer), answer.read())

    def _begun(self, request: Request, patience: float | None) -> http.client.HTTPResponse:
        connection = self._connection()
        assert connection.sock is not None
        connection.sock.settimeout(patience)
        # Who refuses a long request may answer and hang up before it has come to its end.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(request.method, request.path, request.content, dict(request.headers))
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        """One that the server has closed meanwhile is not written to: nobody could tell whether
        such a request was heard."""
        kept = self._open
        if kept is not None and kept.sock is not None:
            if not select.select([kept.sock], [], [], 0)[0]:
                return kept
            kept.close()
        made = self._open = self._connected()
        if self._is_over:
            made.close()
            raise ConnectionAbortedError
        return made

    def _connected(self) -> http.client.HTTPConnection:
        made: http.client.HTTPConnection
        if self._secure:
            trusted = ssl.create_default_context()
            made = http.client.HTTPSConnection(
                self._host, self._port, timeout=TO_CONNECT, context=trusted
            )
        else:
            made = http.client.HTTPConnection(self._host, self._port, timeout=TO_CONNECT)
        made.connect()
        return made


def names_lower(answer: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.getheaders()}


def _do(work: Callable[[], T], done: concurrent.futures.Future[T]) -> None:
    done.set_running_or_notify_cancel()
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
