"""A connection to a server: requests in JSON, answers decoded or raised."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import select
import socket
import ssl
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

import taskyard
from taskyard.cli.remote.problems import NoServer, Problem, Unauthorized, error_of
from taskyard.domain.errors import ConfigurationError

T = TypeVar("T")

PATIENCE = 60.0  # seconds for one answer
TO_CONNECT = 10.0
PROBLEM = "application/problem+json"
JSON = "application/json"


class Token(msgspec.Struct, frozen=True):
    text: str
    source: str  # for messages: where it came from

    def __repr__(self) -> str:
        return f"Token(from {self.source})"


class Link:
    """One connection, kept open from one request to the next."""

    def __init__(self, url: str, token: Token) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._secure, self._host, self._port, self._root = _parts(self.url)
        self._open: http.client.HTTPConnection | None = None

    async def get(self, path: str, kind: type[T], /, **query: object) -> T:
        asked = {name: str(value) for name, value in query.items() if value is not None}
        return await self.send("GET", f"{path}?{urlencode(asked)}" if asked else path, kind)

    async def send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: Mapping[str, Any] | None = None,
        *,
        patience: float | None = PATIENCE,
    ) -> T:
        try:
            return await asyncio.to_thread(self._send, method, path, kind, body, patience)
        except asyncio.CancelledError:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        """Whoever reads is woken: a thread that waits for an answer would keep the program."""
        if self._open is not None and self._open.sock is not None:
            with contextlib.suppress(OSError):
                self._open.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: Mapping[str, Any] | None,
        patience: float | None,
    ) -> T:
        try:
            status, content_type, content = self._exchange(method, path, body, patience)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise NoServer(f"no answer from {self.url}: {_why(error)}") from None
        if status >= 400:
            raise self._refusal(status, content_type, content)
        if status == 204:
            content = b"null"
        elif status >= 300 or not content_type.startswith(JSON):
            raise self._stranger(status)
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError as error:
            raise NoServer(f"{self.url} answers what this release cannot read: {error}") from None

    def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, patience: float | None
    ) -> tuple[int, str, bytes]:
        headers = {
            "Authorization": f"Bearer {self._token.text}",
            "Accept": f"{JSON}, {PROBLEM}",
            "User-Agent": f"taskyard/{taskyard.__version__}",
        }
        content = None
        if body is not None:
            headers["Content-Type"] = JSON
            content = msgspec.json.encode(body)
        connection = self._connection()
        assert connection.sock is not None
        connection.sock.settimeout(patience)
        connection.request(method, f"{self._root}{path}", content, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read()

    def _connection(self) -> http.client.HTTPConnection:
        """One that the server has closed meanwhile is not written to: nobody could tell whether
        such a request was heard."""
        kept = self._open
        if kept is not None and kept.sock is not None:
            if not select.select([kept.sock], [], [], 0)[0]:
                return kept
            kept.close()
        self._open = self._connected()
        return self._open

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

    def _refusal(self, status: int, content_type: str, content: bytes) -> Exception:
        if not content_type.startswith(PROBLEM):
            return self._stranger(status)
        try:
            problem = msgspec.json.decode(content, type=Problem)
        except msgspec.MsgspecError:
            return self._stranger(status)
        if problem.status == 401:
            return Unauthorized(f"{self.url} does not accept the token of {self._token.source}")
        return error_of(problem)

    def _stranger(self, status: int) -> NoServer:
        phrase = http.client.responses.get(status, "")
        return NoServer(f"{self.url} is no Taskyard server: it answers {status} {phrase}".rstrip())


def below(*names: str) -> str:
    """A path of names, whatever characters they have."""
    return "".join(f"/{quote(name, safe='')}" for name in names)


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    try:
        found = urlsplit(url)
        host, port = found.hostname, found.port
    except ValueError:
        raise _no_url() from None
    if found.scheme not in ("http", "https") or not host or not url.isascii():
        raise _no_url()
    if found.username is not None or found.query or found.fragment or not url.isprintable():
        raise _no_url()
    return found.scheme == "https", host, port, found.path


def _no_url() -> ConfigurationError:
    """Without what was given: it may hold a password."""
    return ConfigurationError("--server takes the URL of a server, such as http://127.0.0.1:8321")


def _why(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate cannot be trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed ({error.reason or error}); does it speak TLS?"
        case TimeoutError():
            return "it takes too long"
        case http.client.RemoteDisconnected():
            return "it hung up; does it speak TLS, as in https://?"
        case http.client.HTTPException():
            return "what it says is not HTTP"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
