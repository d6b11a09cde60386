"""What stands in front of every route: whether a request may come in at all.

It knows hosts, origins, sizes, content types and tokens. What a caller may do then, each route
says by its role.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec

from taskyard.domain.errors import ConfigurationError
from taskyard.engine.log import logger
from taskyard.server import limits
from taskyard.server.config import LOOPBACK_HOSTS
from taskyard.server.keyring import Keyring
from taskyard.server.problems import MEDIA_TYPE, RETRY_AFTER, Problem, Refusal, problem
from taskyard.server.roles import Caller
from taskyard.settings import Discreet

log = logger("server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

COOKIE = "taskyard_session"
CALLER = "user"  # where in the scope Litestar looks for it
ROOT = "taskyard_root"  # the path this app is mounted at
SLASH = "\x1f"  # stands for a slash inside a name: no name can have this character

SHELL = "/dashboard"
OPEN = frozenset({"/healthz", "/readyz", "/api/login", SHELL})
OPEN_BELOW = f"{SHELL}/"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

ONCE = frozenset(
    {
        b"host",
        b"authorization",
        b"origin",
        b"sec-fetch-site",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
    }
)

POLICY = (
    b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    b"form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")


class Headers(Discreet, msgspec.Struct, frozen=True, kw_only=True):
    """Those the gate looks at. All but cookies may come once: of two, one program would heed the
    first, and another, say a proxy in front of us, the last."""

    _hidden = frozenset({"authorization", "cookies"})

    host: str
    authorization: str
    cookies: list[str]
    origin: str
    fetch_site: str
    content_type: str
    content_length: str
    transfer_encoding: str
    twice: str  # the name of one that came more than once

    @classmethod
    def of(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
        said: dict[bytes, str] = {}
        cookies, twice = [], ""
        for name, value in pairs:
            if name == b"cookie":
                cookies.append(value.decode("latin-1"))
            elif name in ONCE:
                twice = name.decode() if name in said else twice
                said[name] = value.decode("latin-1")
        return cls(
            host=said.get(b"host", ""),
            authorization=said.get(b"authorization", ""),
            cookies=cookies,
            origin=said.get(b"origin", ""),
            fetch_site=said.get(b"sec-fetch-site", ""),
            content_type=said.get(b"content-type", ""),
            content_length=said.get(b"content-length", ""),
            transfer_encoding=said.get(b"transfer-encoding", ""),
            twice=twice,
        )

    @property
    def has_body(self) -> bool:
        return bool(self.transfer_encoding) or self.content_length not in ("", "0")


class Gate:
    def __init__(self, inner: App, keyring: Keyring, allowed_hosts: Iterable[str] = ()) -> None:
        self._inner = inner
        self._keyring = keyring
        self._hosts = frozenset(map(_without_port, (*LOOPBACK_HOSTS, *allowed_hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            case _:
                await self._inner(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        root, path = own_path(scope)
        headers = Headers.of(scope["headers"])
        found = self._refusal(scope, headers) or self._unreadable(path)
        caller = None
        if found is None:
            try:
                caller = self._caller(headers)
            except ConfigurationError as error:
                log.error("tokens", error=str(error))
                found = problem(503, "tokens cannot be checked now", code=error.code)
        if found is None and caller is None and not is_open(path):
            found = problem(401, "send a token: Authorization: Bearer ty1_…")
        if found is None and scope["method"] not in SAFE:
            found = _foreign(scope, headers, caller)
        if found is not None:
            await tell(found, send)
            return
        inner = {**scope, "path": path, "root_path": "", CALLER: caller, ROOT: root}
        if headers.has_body and scope["method"] not in SAFE:
            receive = _whole(receive)
        await self._inner(inner, receive, _with_headers(send, path))

    def _refusal(self, scope: Scope, headers: Headers) -> Problem | None:
        """Why nobody's request would be taken like this."""
        if headers.twice:
            return problem(400, f"{headers.twice} may be said once")
        if _without_port(headers.host) not in self._hosts:
            return problem(400, "this server does not go by that name", code="wrong_host")
        if headers.transfer_encoding and headers.content_length:
            return problem(400, "a body has a length or comes in chunks, not both")
        if headers.content_length and not _is_bounded(headers.content_length):
            return problem(413, f"a request has at most {limits.MAX_BODY:,} bytes")
        if scope["method"] not in SAFE and headers.has_body and not _is_json(headers.content_type):
            return problem(415, "a body must be JSON: Content-Type: application/json")
        return None

    def _unreadable(self, path: str) -> Problem | None:
        readable = path.replace(SLASH, "").isprintable()
        return None if readable else problem(400, "this path cannot be read")

    def _caller(self, headers: Headers) -> Caller | None:
        """One that shows a token is not let in by its cookie."""
        if headers.authorization:
            scheme, _, token = headers.authorization.partition(" ")
            return self._keyring.read(token.strip()) if scheme.lower() == "bearer" else None
        found = (self._keyring.read(token) for token in _sessions(headers.cookies))
        caller = next((one for one in found if one is not None), None)
        return None if caller is None else msgspec.structs.replace(caller, by_cookie=True)


def is_open(path: str) -> bool:
    """Whether no token is needed: exactly these."""
    return path in OPEN or path.startswith(OPEN_BELOW)


def own_path(scope: Scope) -> tuple[str, str]:
    """Where this app is mounted, and the path below. A slash that was sent as %2F, inside a name,
    comes as SLASH; what is no UTF-8 or holds a control character comes as one that is refused."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    try:
        parts = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
    except UnicodeDecodeError:
        return "", "\x00"
    if any(SLASH in part for part in parts):
        return "", "\x00"
    path = "/".join(part.replace("/", SLASH) for part in parts)
    root = scope.get("root_path", "").rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        return root, path[len(root) :] or "/"
    return "", path


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _is_bounded(length: str) -> bool:
    """A few ASCII digits: what else counts as a number is no length."""
    plain = length.isascii() and length.isdigit() and len(length) < 20
    return plain and int(length) <= limits.MAX_BODY


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _sessions(cookies: Iterable[str]) -> list[str]:
    """The tokens in cookies of our name: browsers send one for each path that has one, and beside
    them whatever else runs on this host has left there, well written or not."""
    pairs = (one.partition("=") for header in cookies for one in header.split(";"))
    return [value.strip() for name, _, value in pairs if name.strip() == COOKIE]


def _foreign(scope: Scope, headers: Headers, caller: Caller | None) -> Problem | None:
    """Why a request that changes something is taken for one that another site has caused."""
    refused = problem(403, "requests from other sites are refused", code="cross_origin")
    if headers.fetch_site and headers.fetch_site not in ("same-origin", "none"):
        return refused
    if headers.origin and not _is_same(scope, headers):
        return refused
    proven = headers.origin or headers.fetch_site
    if caller is not None and caller.by_cookie and not proven:
        return refused  # a browser says where it comes from; whatever this is, it is not ours
    return None


def _is_same(scope: Scope, headers: Headers) -> bool:
    try:
        origin = urlsplit(headers.origin)
    except ValueError:
        return False
    secure = scope.get("scheme") != "https" or origin.scheme == "https"
    return (
        secure
        and origin.scheme in ("http", "https")
        and origin.netloc.lower() == headers.host.lower()
    )


async def tell(said: Problem, send: Send) -> None:
    body = msgspec.json.encode(said)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        NO_STORE,
        *SECURITY_HEADERS,
    ]
    if said.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="taskyard"'))
    if said.status == 503:
        headers.append((b"retry-after", RETRY_AFTER.encode()))
    await send({"type": "http.response.start", "status": said.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _whole(receive: Receive) -> Receive:
    """Whoever hangs up in the middle of a body is no fault of ours."""

    async def receiving() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "bad_request", "the body has not come whole")
        return message

    return receiving


def _with_headers(send: Send, path: str) -> Send:
    is_shell = path == SHELL or path.startswith(OPEN_BELOW)  # which says itself what may be kept
    more = SECURITY_HEADERS if is_shell else (NO_STORE, *SECURITY_HEADERS)

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sending
