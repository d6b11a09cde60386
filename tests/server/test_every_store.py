"""The API on each store: what one of them would choke on is refused before it gets there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from taskyard import Retention
from taskyard.server.roles import Role
from tests.server.place import Place
from tests.server.test_tasks import GREET, created


@pytest.fixture
def place(stored: Place) -> Place:
    return stored


async def test_a_yard_is_looked_after(place: Place, api: httpx.AsyncClient) -> None:
    admin = place.caller(Role.ADMIN)
    done = await created(api, keys=["k:1"], group="g", params={"name": "\0 \u202e 🙂"})
    failed = await created(api, kind="fail", lane="other", params={})
    later = await created(api, delay=3600, depends_on=[done])
    await run_and_wait(place, done, failed)
    shown = (await api.get(f"/api/tasks/{done}")).json()
    assert (shown["state"], shown["payload"]) == ("completed", {"name": "\0 \u202e 🙂"})
    for query, wanted in (
        ({}, [later, failed, done]),
        ({"state": "failed"}, [failed]),
        ({"state": "failed", "lane": "other"}, [failed]),
        ({"key": "k:1"}, [done]),
        ({"q": failed[-6:]}, [failed]),
    ):
        found = (await api.get("/api/tasks", params=query)).json()["items"]
        assert [one["id"] for one in found] == wanted, query
    assert "due in" in (await api.get(f"/api/tasks/{later}/explain")).json()["text"]
    sample = await place.server.sampler.sample()
    assert sample.pending == 1
    assert (await api.get("/api/stats")).json()["lanes"]
    assert (
        'taskyard_lane_tasks{lane="default",state="pending"} 1.0'
        in (await api.get("/metrics")).text
    )
    place.yard.retention = Retention(completed=timedelta(0))
    assert (await admin.post("/api/prune")).json()["tasks"] == 0  # another one depends on it
    assert (await api.post(f"/api/tasks/{later}/cancel")).json()["state"] == "cancelled"
    tried = (await admin.post("/api/prune", json={"dry_run": True})).json()
    assert (tried["tasks"], (await api.get(f"/api/tasks/{done}")).status_code) == (1, 200)
    assert (await admin.post("/api/prune")).json()["tasks"] == 1
    assert (await api.get(f"/api/tasks/{done}")).status_code == 404
    token = (await admin.post("/api/tokens", json={"name": "ci ü", "role": "viewer"})).json()
    lines = (await api.get("/api/audit")).json()["items"]
    assert (lines[0]["action"], lines[0]["detail"]) == ("make_token", "viewer ci ü")
    assert lines[0]["subject"] == f"token:{token['id']}"


@pytest.mark.spec("lifecycle-7", part="HTTP")
async def test_lists_and_actions_by_time_of_creation(place: Place, api: httpx.AsyncClient) -> None:
    first, second, third = [await created(api) for _ in range(3)]
    at = (await api.get(f"/api/tasks/{second}")).json()["created_at"]
    times: list[tuple[dict[str, str], list[str]]] = [
        ({"since": at}, [third, second]),
        ({"until": at}, [first]),
        ({"since": at, "until": at}, []),
        ({"since": at, "state": "queued"}, [third, second]),
        ({"since": "0001-01-01T00:00:00Z", "until": at}, [first]),
        ({"since": at, "until": "9999-12-31T23:59:59Z"}, [third, second]),
    ]
    for query, wanted in times:
        for path in ("/api/tasks", "/api/requests"):
            found = (await api.get(path, params=query)).json()["items"]
            assert [one["id"] for one in found] == wanted, (path, query)
        body = {"action": "cancel", "filter": query, "dry_run": True}
        answer = (await api.post("/api/tasks/actions", json=body)).json()
        assert answer == {"matched": len(wanted), "done": 0, "more": False}, query
    listed = (await api.get("/api/queue/list", params={"since": at})).json()
    assert [one["id"] for one in listed["queued"]["items"]] == [third, second]
    body = {"action": "cancel", "filter": {"until": at}}
    assert (await api.post("/api/tasks/actions", json=body)).json()["done"] == 1
    assert (await place.yard.get(first)).state == "cancelled"
    assert (await place.yard.get(second)).state == "queued"


async def run_and_wait(place: Place, *ids: str) -> None:
    worker = place.yard.worker(slots=4)
    await worker.start()
    for task_id in ids:
        await place.yard.ending(task_id, 30)
    await worker.stop()


HOSTILE = (
    "a\0b",
    "' OR 1=1; DROP TABLE tasks --",
    "\u202e\u200b",
    "{}\r\n",
    "x" * 201,
    "🙂",
    "%s$1:a",
)


def bodies(text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every place where a text of the caller goes."""
    fields: dict[str, Any] = {"kind": text, "id": text, "lane": text, "group": text, "dedup": text}
    for name, value in (fields | {n: [text] for n in ("keys", "requires", "depends_on")}).items():
        yield "POST", "/api/tasks", {**GREET, name: value}
        yield "POST", "/api/tasks/bulk", {"tasks": [{**GREET, name: value}]}
    yield "POST", "/api/tasks", {"kind": "greet", "params": {"name": text}}
    yield "POST", "/api/lanes/l/pause", {"reason": text}
    yield "POST", "/api/queue/pause", {"scope": "lane", "lane": text, "reason": text}
    yield "POST", "/api/queue/resume", {"scope": "lane", "lane": text}
    yield "POST", "/api/queue/capacity", {text: 1}
    yield "POST", "/api/tasks/actions", {"action": "cancel", "filter": {"lane": text, "key": text}}
    cron = {"schedule": "0 0 * * *", **GREET}
    for name in ("schedule", "timezone", "lane"):
        yield "PUT", "/api/crons/c", {**cron, name: text}
    yield "POST", "/api/tokens", {"name": text, "role": "viewer"}
    yield "POST", "/api/subscriptions/1/download", {"params": {"url": text}, "lane": text}


@pytest.mark.spec("security-12", part="HTTP")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
async def test_no_text_is_an_error_of_ours(place: Place, text: str) -> None:
    admin = place.caller(Role.ADMIN)
    for method, path, body in bodies(text):
        answer = await admin.request(method, path, json=body)
        assert answer.status_code < 500, (method, path, body, answer.text)
    for name in ("kind", "lane", "key", "q", "cursor", "state"):
        for path in ("/api/tasks", "/api/requests"):
            answer = await admin.get(path, params={name: text})
            assert answer.status_code < 500, (path, name, answer.text)
    quoted = quote(text, safe="")
    for path in ("tasks", "lanes", "crons", "keys/rules", "nodes", "tokens", "subscriptions"):
        for method in ("GET", "DELETE", "PUT"):
            answer = await admin.request(method, f"/api/{path}/{quoted}")
            assert answer.status_code < 500, (method, path, answer.text)
    for path in ("/api/lanes", "/api/tasks", "/api/crons", "/api/keys", "/api/audit", "/metrics"):
        assert (await admin.get(path)).status_code == 200, path


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_no_moment_is_an_error_of_ours(place: Place, at: str) -> None:
    admin = place.caller(Role.ADMIN)
    for path, body in (
        ("/api/tasks", {**GREET, "run_at": at}),
        ("/api/tasks", {**GREET, "deadline": at}),
        ("/api/lanes/l/pause", {"until": at}),
        ("/api/queue/pause", {"until": at}),
    ):
        assert (await admin.post(path, json=body)).status_code == 422, (path, body)
    for name in ("since", "until"):
        for path in ("/api/tasks", "/api/requests", "/api/queue/list"):
            assert (await admin.get(path, params={name: at})).status_code == 422, (path, name)
        body = {"action": "cancel", "filter": {name: at}}
        assert (await admin.post("/api/tasks/actions", json=body)).status_code == 422
    assert (await admin.get("/api/lanes")).status_code == 200
