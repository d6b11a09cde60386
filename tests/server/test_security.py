"""Who is let in, and who is not: every route of the app itself is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.routes import HTTPRoute

from taskyard.domain.task import MAX_PAYLOAD_BYTES
from taskyard.server import limits
from taskyard.server.asks import ANYBODY, ROLE
from taskyard.server.gate import COOKIE
from taskyard.server.roles import Role
from tests.server.place import BASE, HOST, Place

OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("POST", "/api/login"),
}


def routes(place: Place) -> Iterator[tuple[str, str, str]]:
    """Every method of every route, with a path that has something for each parameter, and the role
    it is for."""
    for route in place.server.litestar.routes:
        assert isinstance(route, HTTPRoute), f"{route.path} is not plain HTTP: test it too"
        for handler in route.route_handlers:
            for method in handler.http_methods:
                path = route.path_format.replace("{", "").replace("}", "")
                yield method, path, handler.opt.get(ROLE, Role.VIEWER)


@pytest.mark.spec("security-1")
async def test_no_route_answers_without_a_token(place: Place) -> None:
    stranger = place.caller(None)
    asked = list(routes(place))
    assert len(asked) > 80
    for method, path, _ in asked:
        answer = await stranger.request(method, path)
        if (method, path) in OPEN or (method == "GET" and path.startswith("/dashboard")):
            assert answer.status_code != 401 or path == "/api/login", (method, path)
        else:
            assert answer.status_code == 401, (method, path)
            assert answer.json()["code"] == "unauthorized"


@pytest.mark.spec("security-1")
async def test_what_is_open_is_known(place: Place) -> None:
    found = {(method, path) for method, path, role in routes(place) if role == ANYBODY}
    assert {one for one in found if not one[1].startswith("/dashboard")} == OPEN


@pytest.mark.spec("security-1")
@pytest.mark.parametrize(
    "path", ["/", "/nonsuch", "/api", "/api/nonsuch", "//healthz", "/healthz/"]
)
async def test_a_stranger_does_not_learn_what_there_is(place: Place, path: str) -> None:
    assert (await place.caller(None).get(path)).status_code == 401


@pytest.mark.spec("security-1")
@pytest.mark.parametrize("path", ["/api/events", "/api/tasks", "/dashboard", "/healthz"])
async def test_nobody_comes_in_by_a_websocket(place: Place, path: str) -> None:
    """There is none, and a token does not make one."""
    shown = f"Bearer {place.tokens[Role.ADMIN]}".encode()
    scope = {
        "type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": [(b"host", b"127.0.0.1"), (b"authorization", shown)],
    }  # fmt: skip
    sent: list[MutableMapping[str, Any]] = []

    async def connect() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await place.server(scope, connect, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


NOT_GOOD = {
    "empty": "",
    "no token": "Bearer",
    "another scheme": "Basic dXNlcjpwYXNz",
    "nonsense": "Bearer nonsense",
    "no text": "Bearer ty1_\xff_\xff",
    "very long": "Bearer ty1_" + "a" * 10_000,
}


@pytest.mark.parametrize("shown", NOT_GOOD.values(), ids=NOT_GOOD)
async def test_what_is_no_token_is_refused(place: Place, shown: str) -> None:
    headers = {"Authorization": shown.encode("latin-1")}
    answer = await place.caller(None).get("/api/yard", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.spec("security-2")
async def test_each_role_may_do_what_it_is_for_and_nothing_more(place: Place) -> None:
    for role in Role:
        caller = place.caller(role)
        for method, path, needed in routes(place):
            if needed == ANYBODY or "/events" in path:
                continue
            answer = await caller.request(method, path)
            refused = answer.status_code == 403
            assert refused is not role.covers(Role(needed)), (role, method, path, answer.text)


@pytest.mark.spec("security-2")
async def test_what_changes_something_is_not_for_viewers(place: Place) -> None:
    looks_only = {"/api/logout"}
    for method, path, needed in routes(place):
        if method in ("POST", "PUT", "PATCH", "DELETE") and path not in looks_only:
            assert needed in (Role.OPERATOR, Role.ADMIN, ANYBODY), (method, path)
        if "/tokens" in path or path == "/api/prune":
            assert needed is Role.ADMIN or method == "OPTIONS", (method, path)


@pytest.mark.spec("security-4")
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil"])
async def test_a_foreign_host_is_refused(place: Place, host: str) -> None:
    for path in ("/healthz", "/api/yard"):
        answer = await place.caller(Role.ADMIN).get(path, headers={"Host": host})
        assert answer.status_code == 400
        assert answer.json()["code"] == "wrong_host"


TWICE = {
    "host": [("Host", HOST), ("Host", "evil.example")],
    "origin": [("Origin", "https://evil.example"), ("Origin", BASE)],
    "site": [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-origin")],
    "content type": [("Content-Type", "text/plain"), ("Content-Type", "application/json")],
    "token": [("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
    "length and chunks": [("Content-Length", "5"), ("Transfer-Encoding", "chunked")],
}


@pytest.mark.spec("security-4")
@pytest.mark.parametrize("more", TWICE.values(), ids=TWICE)
async def test_what_can_be_read_in_two_ways_is_refused(
    place: Place, more: list[tuple[str, str]]
) -> None:
    said = {name.lower() for name, _ in more}
    usual = [("Host", HOST), ("Authorization", f"Bearer {place.tokens[Role.ADMIN]}")]
    headers = [*(one for one in usual if one[0].lower() not in said), *more]
    request = httpx.Request("POST", f"{BASE}/api/login", headers=headers)
    answer = await place.caller(None).send(request)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8321"])
async def test_names_of_this_host_are_known(place: Place, host: str) -> None:
    assert (await place.caller(None).get("/healthz", headers={"Host": host})).status_code == 200


async def test_more_hosts_can_be_allowed(tmp_path: Path) -> None:
    place = Place(tmp_path, allowed_hosts=("yard.example", "Other.example:8443"))
    for host in ("yard.example:443", "other.example", "other.example:8443"):
        answer = await place.caller(None).get("/healthz", headers={"Host": host})
        assert answer.status_code == 200
    await place.close()


FOREIGN = {
    "origin": {"Origin": "https://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:9999"},
    "null": {"Origin": "null"},
    "cross-site": {"Sec-Fetch-Site": "cross-site"},
    "same-site": {"Sec-Fetch-Site": "same-site"},
    "broken": {"Origin": "http://[::1"},
}


@pytest.mark.spec("security-4")
@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
async def test_another_site_changes_nothing(place: Place, headers: dict[str, str]) -> None:
    for role in (None, Role.ADMIN):  # logging in is no exception
        path = "/api/tasks" if role else "/api/login"
        body = {"kind": "greet", "params": {"name": "x"}}
        answer = await place.caller(role).post(path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    assert (await place.caller().get("/api/tasks")).json()["items"] == []


@pytest.mark.spec("security-4")
async def test_nothing_is_shared_with_other_origins(place: Place) -> None:
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for role in (None, Role.ADMIN):
        for method in ("OPTIONS", "GET"):
            answer = await place.caller(role).request(method, "/api/tasks", headers=preflight)
            assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.spec("security-4")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
async def test_what_does_not_say_that_it_is_json_is_refused(
    api: httpx.AsyncClient, kind: str
) -> None:
    body = b'{"kind": "greet", "params": {"name": "x"}}'
    answer = await api.post("/api/tasks", content=body, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "not_json")
    assert (await api.get("/api/tasks")).json()["items"] == []


async def logged_in(place: Place, role: Role = Role.OPERATOR) -> httpx.AsyncClient:
    browser = place.caller(None)
    answer = await browser.post(
        "/api/login", json={"token": place.tokens[role]}, headers={"Origin": BASE}
    )
    assert answer.status_code == 200, answer.text
    return browser


@pytest.mark.spec("security-4")
async def test_a_browser_gets_a_cookie_that_scripts_cannot_read(place: Place) -> None:
    stranger = place.caller(None)
    answer = await stranger.post("/api/login", json={"token": place.tokens[Role.VIEWER]})
    said = answer.headers["Set-Cookie"]
    assert said.startswith(f"{COOKIE}=ty1_")
    parts = {part.strip().lower() for part in said.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert "secure" not in parts
    assert (await stranger.get("/api/me")).json()["role"] == "viewer"


async def test_over_tls_the_cookie_is_secure(place: Place) -> None:
    stranger = place.caller(None)
    body = {"token": place.tokens[Role.VIEWER]}
    answer = await stranger.post(f"https://{HOST}/api/login", json=body)
    assert "secure" in answer.headers["Set-Cookie"].lower()


@pytest.mark.parametrize("token", ["", "nonsense", "ty1_"])
async def test_logging_in_needs_a_good_token(place: Place, token: str) -> None:
    answer = await place.caller(None).post("/api/login", json={"token": token})
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers


async def test_a_node_does_not_log_in(place: Place) -> None:
    answer = await place.caller(None).post("/api/login", json={"token": place.tokens[Role.NODE]})
    assert answer.status_code == 401


async def test_logging_out_takes_the_cookie_away(place: Place) -> None:
    browser = await logged_in(place)
    assert (await browser.post("/api/logout", headers={"Origin": BASE})).status_code == 204
    assert (await browser.get("/api/me")).status_code == 401


@pytest.mark.spec("security-4")
async def test_a_cookie_alone_changes_nothing(place: Place) -> None:
    browser = await logged_in(place)
    body = {"kind": "greet", "params": {"name": "x"}}
    assert (await browser.post("/api/tasks", json=body)).status_code == 403
    for proof in ({"Origin": BASE}, {"Sec-Fetch-Site": "same-origin"}):
        assert (await browser.post("/api/tasks", json=body, headers=proof)).status_code == 201


@pytest.mark.parametrize(
    "cookies",
    [
        'prefs={"a": 1}; SESSION',
        "a b=c; SESSION",
        "nothing; SESSION; =",
        "SESSION; taskyard_session=of-another-yard",
        "taskyard_session=of-another-yard;SESSION",
        "théme=dark; SESSION",
    ],
)
async def test_cookies_of_others_do_not_stand_in_the_way(place: Place, cookies: str) -> None:
    session = f"{COOKIE}={place.tokens[Role.VIEWER]}"
    header = cookies.replace("SESSION", session).encode("latin-1")
    answer = await place.caller(None).get("/api/me", headers=[(b"Cookie", header)])
    assert answer.status_code == 200


async def test_a_bad_token_is_not_made_good_by_a_cookie(place: Place) -> None:
    browser = await logged_in(place)
    answer = await browser.get("/api/me", headers={"Authorization": "Bearer nonsense"})
    assert answer.status_code == 401


@pytest.mark.spec("security-9")
async def test_every_answer_forbids_what_it_does_not_need(place: Place) -> None:
    for path in ("/healthz", "/api/yard", "/api/nonsuch", "/api/docs", "/dashboard"):
        for role in (None, Role.VIEWER):
            headers = (await place.caller(role).get(path)).headers
            policy = headers["Content-Security-Policy"]
            assert "default-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.spec("security-11", part="HTTP")
async def test_a_body_that_is_too_large_is_refused(api: httpx.AsyncClient) -> None:
    big = b'"' + b"a" * limits.MAX_BODY + b'"'
    headers = {"Content-Type": "application/json"}

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(big), 65_536):
            yield big[start : start + 65_536]

    for content in (big, in_pieces()):
        answer = await api.post("/api/tasks", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.spec("security-11", part="HTTP")
async def test_a_payload_that_is_too_large_is_refused(api: httpx.AsyncClient) -> None:
    large = {"kind": "greet", "params": {"name": "x" * MAX_PAYLOAD_BYTES}}
    for path, body in (("/api/tasks", large), ("/api/tasks/bulk", {"tasks": [large]})):
        answer = await api.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert (await api.get("/api/tasks")).json()["items"] == []


@pytest.mark.spec("security-11", part="HTTP")
@pytest.mark.parametrize("depth", [limits.MAX_DEPTH + 1, 5_000, 400_000])
async def test_json_that_is_too_deep_is_refused(api: httpx.AsyncClient, depth: int) -> None:
    body = b'{"kind": "greet", "params": {"name": ' + b"[" * depth + b"]" * depth + b"}}"
    answer = await api.post(
        "/api/tasks", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "too_deep")


@pytest.mark.spec("security-11", part="HTTP")
async def test_pages_and_bulks_are_bounded(api: httpx.AsyncClient) -> None:
    for path in ("/api/tasks", "/api/requests", "/api/audit", "/api/keys", "/api/queue/list"):
        assert (await api.get(path, params={"limit": limits.MAX_PAGE})).status_code == 200
        for limit in (limits.MAX_PAGE + 1, 0, -1):
            assert (await api.get(path, params={"limit": limit})).status_code == 400
    one = {"kind": "greet", "params": {"name": "x"}}
    many = {"tasks": [one] * (limits.MAX_BULK + 1)}
    assert (await api.post("/api/tasks/bulk", json=many)).status_code == 422
    demanding = {**one, "requires": [f"c{number}" for number in range(limits.MAX_REQUIRED + 1)]}
    assert (await api.post("/api/tasks", json=demanding)).status_code == 422
    lanes = {f"l{number}": 1 for number in range(limits.MAX_BULK + 1)}
    assert (await api.post("/api/queue/capacity", json=lanes)).status_code == 413
