"""Lanes, the request queue, keys, crons, workers and the yard over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from taskyard.domain.cron import Cron
from taskyard.domain.node import NewNode, NodeState
from taskyard.server.roles import Role
from tests.server.place import Place
from tests.server.test_tasks import GREET, created, run_everything


@pytest.mark.spec("lifecycle-3", part="HTTP")
async def test_lanes_are_changed_while_everything_runs(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/queue/capacity", json={"requires_cookie": 1, "no_cookie": 2})
    assert {one["name"]: one["capacity"] for one in answer.json()["items"]} == {
        "requires_cookie": 1, "no_cookie": 2,
    }  # fmt: skip
    changed = await api.patch(
        "/api/lanes/no_cookie",
        json={"capacity": None, "max_depth": 9, "order": "fair", "rate": {"starts": 5}},
    )
    lane = changed.json()
    assert (lane["capacity"], lane["max_depth"], lane["order"]) == (None, 9, "fair")
    assert lane["rate"] == {"starts": 5, "seconds": 1.0, "burst": 1}
    kept = (await api.put("/api/lanes/no_cookie", json={"ageing": 60})).json()
    assert (kept["max_depth"], kept["ageing"]) == (9, 60.0)
    assert (await api.get("/api/lanes/nonsuch")).status_code == 404
    for wrong in (
        {"capacity": -1},
        {"capacity": "many"},
        {"order": "lifo"},
        {"rate": {"starts": 0}},
    ):
        assert (await api.patch("/api/lanes/no_cookie", json=wrong)).status_code == 422
    half = await api.post("/api/queue/capacity", json={"no_cookie": 5, "requires_cookie": -1})
    assert half.status_code == 422
    assert (await api.get("/api/lanes/no_cookie")).json()["capacity"] is None


@pytest.mark.spec("lifecycle-2", part="HTTP")
async def test_the_queue_is_paused_as_a_whole_or_by_lane(
    place: Place, api: httpx.AsyncClient
) -> None:
    paused = (await api.post("/api/queue/pause", json={"scope": "all", "for": 3600})).json()
    assert paused["paused"] is True
    assert (await api.post("/api/tasks", json=GREET)).status_code == 201
    assert (await api.get("/api/queue/stats")).json()["queued"] == 1
    assert (await api.post("/api/queue/resume", json={"scope": "all"})).json()["paused"] is False
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"scope": "lane", "lane": "default", "until": until, "reason": "a pause"}
    [lane] = (await api.post("/api/queue/pause", json=body)).json()["lanes"]
    assert (lane["paused"], lane["paused_reason"]) == (True, "a pause")
    assert lane["paused_until"] is not None
    [lane] = (
        await api.post("/api/queue/resume", json={"scope": "lane", "lane": "default"})
    ).json()["lanes"]
    assert lane["paused"] is False
    wrongs: list[dict[str, Any]] = [
        {"scope": "lane"},
        {"scope": "all", "lane": "x"},
        {"scope": "all", "reason": "nobody would see it"},
        {"for": -1},
        {"scope": "x"},
    ]
    for wrong in wrongs:
        assert (await api.post("/api/queue/pause", json=wrong)).status_code == 422
    assert (await api.get("/api/queue/stats")).json()["paused"] is False
    lane = (await api.post("/api/lanes/default/pause", json={"reason": "r", "for": 60})).json()
    assert (lane["paused"], lane["paused_reason"]) == (True, "r")
    assert (await api.post("/api/lanes/default/resume")).json()["paused"] is False


@pytest.mark.spec("lifecycle-4", part="HTTP")
async def test_requests_are_the_same_rows(place: Place, api: httpx.AsyncClient) -> None:
    first, second, third = [await created(api, lane="l") for _ in range(3)]
    await api.post(f"/api/requests/{third}/prioritize", json={"priority": 1})
    await api.post(f"/api/tasks/{first}/pause")
    assert (await api.post(f"/api/requests/{second}/cancel")).json() == {
        "id": second, "outcome": "cancelled", "state": "cancelled",
    }  # fmt: skip
    queued = (await api.get("/api/requests", params={"state": "queued"})).json()
    assert [one["id"] for one in queued["items"]] == [third, first]
    one = (await api.get("/api/requests", params={"state": "queued", "limit": 1})).json()
    rest = await api.get(
        "/api/requests", params={"state": "queued", "limit": 1, "cursor": one["next"]}
    )
    assert [each["id"] for each in rest.json()["items"]] == [first]
    assert len((await api.get("/api/requests")).json()["items"]) == 3
    listed = (await api.get("/api/queue/list")).json()
    assert [one["id"] for one in listed["queued"]["items"]] == [third, first]
    await api.post(f"/api/tasks/{first}/resume")
    await run_everything(place)
    stats = (await api.get("/api/queue/stats")).json()
    assert (stats["queued"], stats["done"], stats["cancelled"]) == (0, 2, 1)


@pytest.mark.spec("lifecycle-7", part="HTTP")
async def test_subscriptions(place: Place, api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/subscriptions/7/download", json={"params": {}, "priority": 2})
    assert answer.status_code == 201
    [task] = (await api.get("/api/subscriptions/7/tasks")).json()["items"]
    assert (task["id"], task["keys"]) == (answer.json()["id"], ["sub:7"])
    assert (task["kind"], task["lane"]) == ("download", "downloads")
    assert (await api.get("/api/subscriptions/8/tasks")).json()["items"] == []
    assert (await api.delete("/api/subscriptions/7")).json() == {"cancelled": 1}
    line = (await place.yard.audit(limit=1))[0]
    assert (line.actor, line.action) == ("system", "cancel")
    assert (await place.yard.get(task["id"])).reason == "system"


async def test_an_application_without_downloads_says_so(
    place: Place, api: httpx.AsyncClient
) -> None:
    del place.yard.registry._kinds["download"]
    answer = await api.post("/api/subscriptions/7/download", json={})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_keys_and_their_rules(api: httpx.AsyncClient) -> None:
    rule = {"limit": 2, "rate": {"starts": 1, "seconds": 2.0, "burst": 1}}
    answer = await api.put("/api/keys/rules/https:%2F%2Fhost:*", json=rule)
    assert answer.json() == {"pattern": "https://host:*", **rule}
    assert (await api.get("/api/keys")).json()["rules"] == [answer.json()]
    assert (await api.delete("/api/keys/rules/https:%2F%2Fhost:*")).status_code == 204
    assert (await api.delete("/api/keys/rules/https:%2F%2Fhost:*")).status_code == 404
    wrongs: list[dict[str, Any]] = [{"limit": -1}, {"limit": "x"}, {"rate": {"starts": 0}}]
    for wrong in wrongs:
        assert (await api.put("/api/keys/rules/k", json=wrong)).status_code == 422
    assert (await api.put("/api/keys/rules/a*b", json={})).status_code == 422


CRON: dict[str, Any] = {"schedule": "*/5 * * * *", "kind": "greet", "params": {"name": "x"}}


@pytest.mark.spec("lifecycle-18")
async def test_crons_are_edited_at_run_time(api: httpx.AsyncClient) -> None:
    made = await api.put("/api/crons/often", json={**CRON, "timezone": "Europe/Paris"})
    assert made.status_code == 200
    assert (made.json()["kind"], made.json()["params"]) == ("greet", {"name": "x"})
    assert made.json()["next_at"] is not None
    assert (await api.post("/api/crons/often/pause")).json()["paused"] is True
    assert (await api.post("/api/crons/often/resume")).json()["paused"] is False
    assert [one["name"] for one in (await api.get("/api/crons")).json()["items"]] == ["often"]
    wrongs: list[dict[str, Any]] = [
        {"schedule": "never"},
        {"timezone": "Mars"},
        {"params": {}},
        {"kind": "nonsuch"},
    ]
    for wrong in wrongs:
        assert (await api.put("/api/crons/often", json={**CRON, **wrong})).status_code == 422
    assert (await api.delete("/api/crons/often")).status_code == 204
    for method, path in (("DELETE", "often"), ("POST", "often/pause"), ("POST", "often/resume")):
        assert (await api.request(method, f"/api/crons/{path}")).status_code == 404


@pytest.mark.spec("lifecycle-18")
async def test_what_is_not_said_of_a_cron_stays(place: Place, api: httpx.AsyncClient) -> None:
    params = {"message": "x", "password": "hunter2"}
    task = place.yard.kind("fail").options(lane="mail", priority=8, key="k", timeout=7)
    await place.yard.set_cron("c", "0 3 * * *", task.new(**params), timezone="Europe/Paris")
    await api.post("/api/crons/c/pause")

    async def kept() -> Cron:
        [entry] = await place.yard.crons()
        return entry.cron

    before = await kept()
    answer = await api.patch("/api/crons/c", json={"schedule": "0 4 * * *"})
    assert (answer.status_code, answer.json()["params"]["password"]) == (200, "***")
    assert await kept() == msgspec.structs.replace(before, schedule="0 4 * * *")

    shown = answer.json()["params"]
    answer = await api.patch("/api/crons/c", json={"params": shown, "priority": 9, "lane": "post"})
    assert answer.status_code == 200
    after = (await kept()).task
    assert msgspec.json.decode(after.payload) == params
    assert (after.lane, after.priority, after.keys, after.timeout) == ("post", 9, ("k",), 7)

    elsewhere = await api.patch("/api/crons/c", json={"params": {**shown, "message": "y"}})
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (422, "hidden")
    anew = {"message": "y", "password": "hunter3"}
    assert (await api.patch("/api/crons/c", json={"params": anew})).status_code == 200
    assert msgspec.json.decode((await kept()).task.payload) == anew
    assert (await kept()).task.keys == ("k",)

    other = {"kind": "greet", "params": {"name": "x"}}
    assert (await api.patch("/api/crons/c", json=other)).json()["lane"] == "default"
    assert (await kept()).paused
    wrongs: list[dict[str, object]] = [
        {"kind": "nonsuch"}, {"params": {}}, {"priority": 0}, {"schedule": ""}, {"x": 1},
    ]  # fmt: skip
    for wrong in wrongs:
        assert (await api.patch("/api/crons/c", json=wrong)).status_code == 422
    assert (await api.patch("/api/crons/nonsuch", json={})).status_code == 404


@pytest.mark.spec("security-10")
@pytest.mark.parametrize(
    "params", [{"password": "***"}, {"message": "https://ada:***@example.org/"}], ids=str
)
async def test_a_secret_as_it_is_shown_is_not_taken_for_one(
    api: httpx.AsyncClient, params: dict[str, str]
) -> None:
    body = {"kind": "fail", "params": params}
    for answer in (
        await api.post("/api/tasks", json=body),
        await api.post("/api/tasks/bulk", json={"tasks": [body]}),
        await api.put("/api/crons/c", json={**body, "schedule": "0 4 * * *"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "hidden")
    stars = {"kind": "fail", "params": {"message": "***"}}
    assert (await api.post("/api/tasks", json=stars)).status_code == 201


async def test_workers_are_shown_and_drained(place: Place, api: httpx.AsyncClient) -> None:
    await place.yard.store.register(NewNode(id="n/1", kinds=("greet",), slots=3))
    [node] = (await api.get("/api/nodes")).json()["items"]
    assert (node["id"], node["state"], node["slots"]) == ("n/1", "ready", 3)
    drained = (await api.post("/api/nodes/n%2F1/drain")).json()
    assert drained["state"] == "draining"
    assert (await place.yard.nodes())[0].state is NodeState.DRAINING
    assert (await api.post("/api/nodes/nonsuch/drain")).status_code == 404


async def test_of_one_name_the_worker_that_was_started_last_is_drained(place: Place) -> None:
    store = place.yard.store
    died, lives = [await store.register(NewNode(id="n", kinds=(), slots=1)) for _ in range(2)]

    assert (await place.yard.drain_node("n")).lease == lives

    states = {node.lease: node.state for node in await place.yard.nodes()}
    assert states == {died: NodeState.READY, lives: NodeState.DRAINING}


async def test_the_yard_and_its_kinds(place: Place, api: httpx.AsyncClient) -> None:
    await created(api)
    yard = (await api.get("/api/yard")).json()
    assert (yard["store"], yard["paused"], yard["counts"]["queued"]) == ("sqlite", False, 1)
    assert yard["kinds"] == ["download", "fail", "greet"]
    kinds = {one["name"]: one for one in (await api.get("/api/kinds")).json()["items"]}
    assert kinds["greet"]["description"] == "Says hello."
    assert kinds["greet"]["parameters"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "times": {"type": "integer", "default": 1}},
        "required": ["name"],
        "additionalProperties": False,
    }
    assert kinds["download"]["timeout"] == 1800


class Login(msgspec.Struct):
    user: str = "ada"
    password: str = "hunter2"


@pytest.mark.spec("security-10")
async def test_a_secret_that_is_a_default_is_not_published(
    place: Place, api: httpx.AsyncClient
) -> None:
    @place.yard.task()
    async def fetch(
        *,
        token: str = "t0ken",
        url: str = "https://ada:l0gin@example.org/",
        login: Login = Login(),  # noqa: B008 - what a user may write
        properties: dict[str, int] | None = None,
        pages: int = 3,
    ) -> None: ...

    text = (await api.get("/api/kinds")).text
    assert [word for word in ("t0ken", "l0gin", "hunter2") if word in text] == []
    kinds = {
        one["name"]: one["parameters"] for one in (await api.get("/api/kinds")).json()["items"]
    }
    assert kinds["fetch"]["required"] == []
    assert kinds["fetch"]["properties"]["pages"]["default"] == 3
    assert kinds["fetch"]["$defs"]["Login"]["properties"]["user"]["default"] == "ada"


@pytest.mark.spec("lifecycle-15", part="HTTP")
async def test_pruning_can_be_tried_first(place: Place) -> None:
    admin = place.caller(Role.ADMIN)
    answer = await admin.post("/api/prune", json={"dry_run": True})
    assert answer.json() == {"tasks": 0, "audit": 0, "dry_run": True}
    assert (await place.caller().post("/api/prune", json={"dry_run": True})).status_code == 403


async def test_the_audit_trail_is_paged(place: Place, api: httpx.AsyncClient) -> None:
    for number in range(3):
        await api.patch("/api/lanes/l", json={"capacity": number})
    first = (await api.get("/api/audit", params={"limit": 2})).json()
    rest = (await api.get("/api/audit", params={"limit": 2, "before": first["next"]})).json()
    assert len(first["items"]) == 2
    assert first["items"][-1]["no"] > rest["items"][0]["no"]
    assert (await api.get("/api/audit", params={"before": 2**64})).status_code == 400
