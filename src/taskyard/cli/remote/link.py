"""What is asked of a server: requests in JSON, answers decoded, refusals raised."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

import taskyard
from taskyard.cli.remote.events import Event, Events
from taskyard.cli.remote.line import Answer, Line, Request, names_lower
from taskyard.cli.remote.problems import (
    NoServer,
    OtherRelease,
    Problem,
    Unauthorized,
    error_of,
)
from taskyard.cli.remote.token import Token
from taskyard.domain.errors import ConfigurationError, TaskyardError

T = TypeVar("T")

PATIENCE = 60.0  # seconds for one answer; an open stream is never silent for so long
PROBLEM = "application/problem+json"
JSON = "application/json"
EVENTS = "text/event-stream"
UNKNOWN = frozenset(
    {"no_route", "method_not_allowed"}
)  # codes for what a server has never heard of
DOWN = frozenset({502, 503, 504})  # what proxies say for a server that does not answer


class Release(msgspec.Struct, frozen=True):
    version: Annotated[str, msgspec.Meta(max_length=40)]


class Link:
    def __init__(self, url: str, token: Token) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._secure, self._host, self._port, self._root = _parts(self.url)
        self._line = self._new_line()

    def _new_line(self) -> Line:
        return Line(self._host, self._port, secure=self._secure)

    def close(self) -> None:
        self._line.close()

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
        answer = await self._answer(method, path, body, patience)
        if answer.status >= 300:
            raise await self._refusal(answer)
        if answer.status == 204:
            return msgspec.json.decode(b"null", type=kind)
        if not answer.content_type.startswith(JSON):
            raise self._stranger(answer.status)
        return await self.decoded(answer.content, kind)

    async def decoded(self, content: bytes | str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError as error:
            said = f"answers what this release cannot read: {error}"
            raise await self._other_release(said) from None

    async def events(self, path: str, last: str | None) -> AsyncGenerator[Event, None]:
        """What the server sends until it hangs up, on a connection of its own; `last` is the id of
        the last event that is known already."""
        headers = self._headers() | {"Accept": f"{EVENTS}, {PROBLEM}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        line = self._new_line()
        try:
            stream = await line.open(Request("GET", self._root + path, headers), PATIENCE)
            answer = Answer(stream.status, names_lower(stream))
            if answer.status >= 300:
                raise await self._refusal(answer._replace(content=await line.rest(stream)))
            if not answer.content_type.startswith(EVENTS):
                raise self._stranger(answer.status)
            events = Events()
            while said := await line.next_line(stream):
                if (event := events.take(said)) is not None:
                    yield event
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from None
        finally:
            line.close()

    async def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | None, patience: float | None
    ) -> Answer:
        headers, content = self._headers(), None
        if body is not None:
            headers["Content-Type"] = JSON
            content = msgspec.json.encode(body)
        try:
            return await self._line.ask(
                Request(method, self._root + path, headers, content), patience
            )
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._silent(error) from None

    def _headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._token.text}",
            "Accept": f"{JSON}, {PROBLEM}",
            "User-Agent": f"taskyard/{taskyard.__version__}",
        }

    # --- what goes wrong ---

    async def _refusal(self, answer: Answer) -> TaskyardError:
        if answer.status < 400:
            return self._elsewhere(answer)
        problem = self._problem(answer)
        if problem is None:
            return self._stranger(answer.status)
        if problem.status == 401:
            return Unauthorized(f"{self.url} does not accept the token of {self._token.source}")
        if problem.code in UNKNOWN:
            return await self._other_release("does not know this command")
        return error_of(problem)

    def _problem(self, answer: Answer) -> Problem | None:
        if not answer.content_type.startswith(PROBLEM):
            return None
        try:
            found = msgspec.json.decode(answer.content, type=Problem)
        except msgspec.MsgspecError:
            return None
        return msgspec.structs.replace(found, detail=self._hidden(found.detail))

    def _hidden(self, text: str) -> str:
        """A server that repeats what it was sent does not bring the token onto a screen."""
        return text.replace(self._token.text, "***")

    def _silent(self, error: Exception) -> NoServer:
        return NoServer(f"no answer from {self.url}: {_why(error)}")

    def _stranger(self, status: int) -> NoServer:
        said = f"{status} {http.client.responses.get(status, '')}".rstrip()
        if status in DOWN:
            return NoServer(f"no server answers at {self.url} now: {said}")
        return NoServer(f"{self.url} is no Taskyard server: it answers {said}")

    def _elsewhere(self, answer: Answer) -> NoServer:
        """Where that is, is not followed: a token is for the server it was given for."""
        try:
            parts = urlsplit(answer.headers.get("location", ""))
        except ValueError:
            return self._stranger(answer.status)
        if not parts.netloc:
            return self._stranger(answer.status)
        other = self._hidden(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
        return NoServer(f"{self.url} sends to {other}: give the URL of the server itself")

    async def _other_release(self, said: str) -> NoServer:
        """It does as `said`; if it is a Taskyard, of which release."""
        version = await self._version()
        if version is None:
            return NoServer(f"there is no Taskyard server at {self.url}")
        which = f"it is Taskyard {version}, this is {taskyard.__version__}"
        return OtherRelease(self._hidden(f"{self.url} {said} ({which})"))

    async def _version(self) -> str | None:
        try:
            answer = await self._answer("GET", "/api/yard", None, PATIENCE)
            return msgspec.json.decode(answer.content, type=Release).version
        except (NoServer, msgspec.MsgspecError):
            return None


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
        case http.client.IncompleteRead():
            return "it hung up before the end of its answer"
        case http.client.HTTPException():
            return "what it says is not HTTP"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
