"""The server inside another application, and its dashboard's files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from taskyard.server import dashboard
from taskyard.server.roles import Role
from tests.server.place import BASE, Place


@pytest.fixture
async def mounted(tmp_path: Path) -> AsyncIterator[tuple[Place, httpx.AsyncClient]]:
    """Nobody starts it: the first request does."""
    place = Place(tmp_path)
    app = FastAPI()
    app.mount("/tools/yard", place.server)
    headers = {"Authorization": f"Bearer {place.tokens[Role.OPERATOR]}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
        yield place, client
    await place.close()


async def test_it_works_below_a_prefix(mounted: tuple[Place, httpx.AsyncClient]) -> None:
    _, client = mounted
    body = {"kind": "greet", "params": {"name": "x"}, "id": "a/b"}
    assert (await client.post("/tools/yard/api/tasks", json=body)).status_code == 201
    assert (await client.get("/tools/yard/api/tasks/a%2Fb")).json()["state"] == "queued"
    schema = (await client.get("/tools/yard/api/openapi.json")).json()
    assert schema["servers"] == [{"url": "/tools/yard"}]
    assert (await client.get("/api/tasks")).status_code == 404  # that is the other application's
    bare = {"Authorization": ""}
    assert (await client.get("/tools/yard/healthz", headers=bare)).status_code == 200
    assert (await client.get("/tools/yard/api/yard", headers=bare)).status_code == 401
    assert (await client.get("/tools/yard/tools/yard/healthz", headers=bare)).status_code == 401


async def test_the_cookie_is_for_the_prefix_alone(
    mounted: tuple[Place, httpx.AsyncClient],
) -> None:
    place, client = mounted
    answer = await client.post(
        "/tools/yard/api/login",
        json={"token": place.tokens[Role.VIEWER]},
        headers={"Authorization": ""},
    )
    assert "Path=/tools/yard" in answer.headers["Set-Cookie"]


async def test_the_cookie_comes_back_whatever_the_prefix_is_called(tmp_path: Path) -> None:
    place = Place(tmp_path)
    app = FastAPI()
    app.mount("/my yard; Domain=x", place.server)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as browser:
        below = "/my%20yard%3B%20Domain%3Dx/api"
        body = {"token": place.tokens[Role.VIEWER]}
        assert (await browser.post(f"{below}/login", json=body)).status_code == 200
        assert (await browser.get(f"{below}/me")).json()["role"] == "viewer"
        assert (await browser.get("/other")).request.headers.get("Cookie") is None
    await place.close()


async def test_it_is_alive_while_there_is_no_store(tmp_path: Path) -> None:
    place = Place(tmp_path, url=f"sqlite:///{tmp_path}/nonsuch/yard.db")
    stranger = place.caller(None)
    assert (await stranger.get("/healthz")).status_code == 200
    for path in ("/readyz", "/api/yard"):
        answer = await stranger.get(path)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.headers["Content-Type"] == "application/problem+json"
    (tmp_path / "nonsuch").mkdir()
    assert (await stranger.get("/readyz")).status_code == 200
    await place.close()


async def test_it_starts_with_the_lifespan_of_another(tmp_path: Path) -> None:
    place = Place(tmp_path)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with place.yard, place.server:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/yard", place.server)
    async with app.router.lifespan_context(app):
        await place.server.sampler.sample()
        assert place.server.sampler.samples
    await place.close()


PAGE = '<!doctype html><title>Taskyard</title><script src="/dashboard/assets/app-1a2b.js"></script>'


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text(PAGE)
    (static / "assets" / "app-1a2b.js").write_text("'use strict';")
    monkeypatch.setattr(dashboard, "STATIC", static)
    dashboard._files.cache_clear()
    yield
    dashboard._files.cache_clear()


@pytest.mark.usefixtures("built")
async def test_every_address_of_the_dashboard_is_the_same_page(place: Place) -> None:
    stranger = place.caller(None)
    below = ("", "/", "/tasks", "/tasks/a%2Fb.c", "/tasks/order-1.2", "/index.html")
    for path in (f"/dashboard{place}" for place in below):
        answer = await stranger.get(path)
        assert answer.status_code == 200, path
        assert "<title>Taskyard" in answer.text
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache"
    script = await stranger.get("/dashboard/assets/app-1a2b.js")
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["Cache-Control"]


@pytest.mark.usefixtures("built")
async def test_below_a_prefix_the_page_finds_its_files(
    mounted: tuple[Place, httpx.AsyncClient],
) -> None:
    _, client = mounted
    for path in ("/dashboard", "/dashboard/tasks/order-1.2"):
        page = (await client.get(f"/tools/yard{path}")).text
        assert 'src="/tools/yard/dashboard/assets/app-1a2b.js"' in page
    script = await client.get("/tools/yard/dashboard/assets/app-1a2b.js")
    assert script.text == "'use strict';"


@pytest.mark.usefixtures("built")
async def test_a_prefix_cannot_write_into_the_page(place: Place) -> None:
    app = FastAPI()
    app.mount("/{tenant}", place.server)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
        answer = await client.get("/%22%3E%3Cscript%3E/dashboard")
    assert answer.status_code == 200
    assert "<script>" not in answer.text


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/..%2F..%2Fserver%2Ftokens.json",
        "/dashboard/%2e%2e/server/tokens.json",
        "/dashboard/assets/..%2F..%2Fserver%2Fsecret",
        "/dashboard/%2Fetc%2Fpasswd",
        "/dashboard/assets/nonsuch.js",
        "/dashboard/assets/app-1a2b.js%00",
    ],
)
@pytest.mark.spec("security-13")
async def test_only_its_own_files_are_given_out(place: Place, path: str) -> None:
    answer = await place.caller(None).get(path)
    if answer.status_code == 200:
        assert answer.text == PAGE
    else:
        assert answer.status_code in (400, 401, 404)


async def test_a_dashboard_that_is_not_built_says_so(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "STATIC", tmp_path / "nothing")
    dashboard._files.cache_clear()
    answer = await place.caller(None).get("/dashboard")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_dashboard")
    assert "make web" in answer.json()["detail"]
    dashboard._files.cache_clear()
