"""Tasks over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from taskyard import State
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.node import NewNode
from taskyard.domain.task import SHORT_PAYLOAD
from taskyard.engine.job import MAX_MESSAGE
from taskyard.engine.veil import Veil
from taskyard.server.roles import Role
from tests.server.place import Place

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GREET = {"kind": "greet", "params": {"name": "x"}}


async def created(api: httpx.AsyncClient, **task: Any) -> str:
    answer = await api.post("/api/tasks", json={**GREET, **task})
    assert answer.status_code == 201, answer.text
    task_id: str = answer.json()["id"]
    return task_id


async def run_everything(place: Place) -> None:
    """Let a worker empty the queue."""
    worker = place.yard.worker(slots=4)
    await worker.start()
    for task in await place.yard.find():
        await place.yard.ending(task.id, 30)
    await worker.stop()


@pytest.mark.spec("lifecycle-7", part="HTTP")
async def test_a_task_is_created_run_and_shown(place: Place, api: httpx.AsyncClient) -> None:
    task_id = await created(api, params={"name": "you", "times": 2}, priority=2, keys=["sub:1"])
    waiting = (await api.get(f"/api/tasks/{task_id}")).json()
    assert (waiting["state"], waiting["priority"], waiting["keys"]) == ("queued", 2, ["sub:1"])
    assert waiting["payload"] == {"name": "you", "times": 2}
    assert waiting["waits"][0]["code"] == "no_node"
    assert waiting["why"] == "no live worker serves kind greet"
    assert waiting["actions"] == ["cancel", "pause", "prioritize"]
    await run_everything(place)
    done = (await api.get(f"/api/tasks/{task_id}")).json()
    assert (done["state"], done["result"]) == ("completed", "hello you, hello you")
    assert [one["outcome"] for one in done["attempts"]] == ["completed"]
    assert done["ended_at"].endswith("Z")
    assert done["actions"] == []


WRONG: dict[str, tuple[dict[str, Any], int, str, str | None]] = {
    "no kind": ({"params": {}}, 422, "invalid", "$"),
    "unknown kind": ({"kind": "nonsuch"}, 422, "unknown_kind", None),
    "unknown field": ({**GREET, "colour": "red"}, 422, "invalid", "$"),
    "a text for a number": ({**GREET, "priority": "2"}, 422, "invalid", "$.priority"),
    "out of range": ({**GREET, "priority": 11}, 422, "invalid", "$.priority"),
    "parameter of another type": (
        {"kind": "greet", "params": {"name": 5}}, 422, "invalid_arguments", "$.params.name",
    ),
    "missing parameter": ({"kind": "greet"}, 422, "invalid_arguments", None),
    "unknown parameter": ({"kind": "greet", "params": {"name": "x", "age": 1}}, 422,
                          "invalid_arguments", None),
    "no zone": ({**GREET, "run_at": "2030-01-01T00:00:00"}, 422, "invalid_option", None),
    "both times": ({**GREET, "run_at": "2030-01-01T00:00:00Z", "delay": 1}, 422,
                   "invalid_option", None),
    "bad name": ({**GREET, "lane": "a\x00b"}, 422, "invalid_option", None),
    "bad group": ({**GREET, "group": "a\x00b"}, 422, "invalid_option", None),
    "bad capability": ({**GREET, "requires": ["a\x00b"]}, 422, "invalid_option", None),
    "bad dependency": ({**GREET, "depends_on": ["a\x00b"]}, 422, "invalid_option", None),
    "before all years": ({**GREET, "run_at": "0001-01-01T00:00:00+12:00"}, 422,
                         "invalid_option", None),
    "after all years": ({**GREET, "deadline": "9999-12-31T23:59:59-12:00"}, 422,
                        "invalid_option", None),
    "negative": ({**GREET, "retries": -1}, 422, "invalid_option", None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "status", "code", "path"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_is_told_with_its_place(
    api: httpx.AsyncClient, body: dict[str, Any], status: int, code: str, path: str | None
) -> None:
    answer = await api.post("/api/tasks", json=body)
    told = answer.json()
    assert (answer.status_code, told["code"], told.get("path")) == (status, code, path)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert told["status"] == status
    assert told["type"] == f"urn:taskyard:{code}"
    assert told["title"]
    assert told["detail"]
    assert (await api.get("/api/tasks")).json()["items"] == []


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[1]", b'"text"', b"null", b"\xff\xfe", b"{"])
async def test_what_is_no_task_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await api.post("/api/tasks", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


async def test_sending_it_again_is_safe(api: httpx.AsyncClient) -> None:
    for headers in ({"Idempotency-Key": "order-7"}, {"Idempotency-Key": "k" * 500}):
        first = await api.post("/api/tasks", json=GREET, headers=headers)
        again = await api.post("/api/tasks", json=GREET, headers=headers)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["id"] == again.json()["id"]
        assert (first.json()["outcome"], again.json()["outcome"]) == ("enqueued", "duplicate")
    assert len((await api.get("/api/tasks")).json()["items"]) == 2
    both = await api.post("/api/tasks", json={**GREET, "id": "a"}, headers={"Idempotency-Key": "b"})
    assert both.status_code == 422


async def test_an_empty_idempotency_key_is_no_key(api: httpx.AsyncClient) -> None:
    body = {"kind": "greet", "params": {"name": "x"}}
    answer = await api.post("/api/tasks", json=body, headers={"Idempotency-Key": ""})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert (await api.get("/api/tasks")).json()["items"] == []


async def test_a_dedup_key_answers_with_the_task_that_keeps_it(api: httpx.AsyncClient) -> None:
    first = await created(api, dedup="only-one")
    again = await api.post(
        "/api/tasks", json={**GREET, "dedup": "only-one", "on_duplicate": "replace"}
    )
    assert again.status_code == 200
    assert again.json() == {"id": first, "outcome": "duplicate", "changed": True}


async def test_a_full_lane_refuses(api: httpx.AsyncClient) -> None:
    await api.patch("/api/lanes/default", json={"max_depth": 1})
    await created(api)
    answer = await api.post("/api/tasks", json=GREET)
    assert (answer.status_code, answer.json()["code"]) == (409, "refused")
    elsewhere = {**GREET, "lane": "other"}
    answer = await api.post("/api/tasks/bulk", json={"tasks": [GREET, elsewhere]})
    assert [one["outcome"] for one in answer.json()["items"]] == ["refused", "enqueued"]


async def test_many_are_created_or_none_if_one_is_wrong(api: httpx.AsyncClient) -> None:
    wrong = {"kind": "greet", "params": {"name": 5}}
    answer = await api.post("/api/tasks/bulk", json={"tasks": [GREET, wrong]})
    assert answer.status_code == 422
    assert answer.json()["path"] == "$.tasks[1].params.name"
    answer = await api.post("/api/tasks/bulk", json={"tasks": [wrong]})
    assert answer.json()["path"] == "$.tasks[0].params.name"
    assert (await api.get("/api/tasks")).json()["items"] == []
    answer = await api.post("/api/tasks/bulk", json={"tasks": [GREET] * 3})
    assert answer.status_code == 201
    assert [one["outcome"] for one in answer.json()["items"]] == ["enqueued"] * 3
    assert len((await api.get("/api/tasks")).json()["items"]) == 3


async def test_a_kind_that_other_workers_run_is_taken_unchecked(
    place: Place, api: httpx.AsyncClient
) -> None:
    body = {"kind": "elsewhere", "params": {"any": ["thing"]}, "keys": ["k"], "retries": 0}
    assert (await api.post("/api/tasks", json=body)).status_code == 422
    await place.yard.store.register(NewNode(id="other", kinds=("elsewhere",), slots=1))
    answer = await api.post("/api/tasks", json=body)
    assert answer.status_code == 201
    task = await place.yard.get(answer.json()["id"])
    assert (task.kind, task.payload, task.keys) == ("elsewhere", '{"any":["thing"]}', ("k",))
    assert task.max_charged == 1


@pytest.mark.spec("lifecycle-7", part="HTTP")
async def test_pages_go_on_where_the_last_one_ended(api: httpx.AsyncClient) -> None:
    ids = [await created(api) for _ in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await api.get("/api/tasks", params=query)).json()
        seen += [one["id"] for one in page["items"]]
        if len(seen) == 2:
            await created(api)  # those that come meanwhile do not move the others
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    "cursor", ["nonsense", "bm86", "eDox", "bm86LTE", "🙂", "bm86OTk5OTk5OTk5OTk5OTk5OTk5OTk5"]
)
async def test_what_is_no_cursor_is_refused(api: httpx.AsyncClient, cursor: str) -> None:
    answer = await api.get("/api/tasks", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


@pytest.mark.spec("security-12", part="HTTP")
async def test_filters_choose(api: httpx.AsyncClient) -> None:
    one = await created(api, keys=["k:1"], lane="left")
    other = await created(api, delay=3600)
    for query, wanted in (
        ({"lane": "left"}, [one]),
        ({"key": "k:1"}, [one]),
        ({"state": "pending"}, [other]),
        ({"state": "queued", "kind": "greet"}, [one]),
        ({"kind": "nonsuch"}, []),
        ({"lane": "' OR 1=1 --"}, []),
        ({"q": one}, [one]),
        ({"q": "LEFT"}, [one]),
        ({"q": "nothing like it"}, []),
    ):
        found = (await api.get("/api/tasks", params=query)).json()
        assert ([each["id"] for each in found["items"]], found["next"]) == (wanted, None), query
    for name, bad in (("state", "nonsuch"), ("lane", "a" * 201)):
        answer = await api.get("/api/tasks", params={name: bad})
        assert (answer.status_code, answer.json()["path"]) == (400, name)
    for name in ("lane", "q"):
        assert (await api.get("/api/tasks", params={name: "a\x00"})).status_code == 422


@pytest.mark.parametrize("at", ["yesterday", "2030-01-01", "2030-13-01T00:00:00Z", ""])
async def test_what_is_no_moment_is_refused(api: httpx.AsyncClient, at: str) -> None:
    for name in ("since", "until"):
        for path in ("/api/tasks", "/api/requests", "/api/queue/list"):
            answer = await api.get(path, params={name: at})
            told = answer.json()
            assert (answer.status_code, told["code"], told["path"]) == (400, "invalid", name)
            assert "RFC3339" in told["detail"]
        body = {"action": "cancel", "filter": {name: at}}
        answer = await api.post("/api/tasks/actions", json=body)
        assert (answer.status_code, answer.json()["path"]) == (422, f"$.filter.{name}")


async def test_a_moment_has_a_zone(api: httpx.AsyncClient) -> None:
    at = "2030-01-01T00:00:00"
    answer = await api.get("/api/tasks", params={"since": at})
    assert (answer.status_code, answer.json()["path"]) == (422, "since")
    assert "time zone" in answer.json()["detail"]
    body = {"action": "cancel", "filter": {"until": at}, "dry_run": True}
    answer = await api.post("/api/tasks/actions", json=body)
    assert (answer.status_code, answer.json()["path"]) == (422, "$.filter.until")


@pytest.mark.spec("lifecycle-6", part="HTTP")
@pytest.mark.spec("lifecycle-7", part="HTTP")
async def test_actions_on_one_task(place: Place, api: httpx.AsyncClient) -> None:
    task_id = await created(api)
    path = f"/api/tasks/{task_id}"
    assert (await api.post(f"{path}/pause")).json()["state"] == "paused"
    assert (await api.get(f"{path}/explain")).json()["text"] == "it is paused; resume it"
    assert (await api.post(f"{path}/resume")).json()["state"] == "queued"
    await api.post(f"{path}/prioritize", json={"priority": 1})
    assert (await place.yard.get(task_id)).priority == 1
    assert (await api.post(f"{path}/cancel")).json()["state"] == "cancelled"
    again = await api.post(f"{path}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "illegal_transition")
    assert (await api.post(f"{path}/retry")).json()["state"] == "queued"
    assert (await api.post(f"{path}/prioritize", json={"priority": 0})).status_code == 422
    for action in ("cancel", "pause", "resume", "retry"):
        answer = await api.post(f"/api/tasks/nonsuch/{action}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.spec("security-18")
async def test_what_is_done_is_audited_with_who_did_it(place: Place) -> None:
    operator, admin = place.caller(Role.OPERATOR), place.caller(Role.ADMIN)
    task_id = await created(operator)
    await operator.post(f"/api/tasks/{task_id}/cancel")
    await operator.patch("/api/lanes/slow", json={"capacity": 1})
    await operator.put("/api/keys/rules/host:*", json={"limit": 2})
    await operator.post("/api/queue/pause", json={"scope": "all"})
    await operator.put(
        "/api/crons/hourly",
        json={"schedule": "0 * * * *", "kind": "greet", "params": {"name": "x"}},
    )
    await admin.post("/api/prune", json={})
    lease = await place.yard.store.register(NewNode(id="w", kinds=("greet",), slots=1))
    assert (await operator.post("/api/nodes/w/drain")).json()["state"] == "draining"
    token = (await admin.post("/api/tokens", json={"name": "ci", "role": "viewer"})).json()
    await admin.delete(f"/api/tokens/{token['id']}")
    await operator.delete("/api/subscriptions/42")
    lines = (await operator.get("/api/audit")).json()["items"]
    by = {(line["actor"], line["subject"]) for line in lines}
    assert {
        ("api:operator", f"task:{task_id}"),
        ("api:operator", "lane:slow"),
        ("api:operator", "key:host:*"),
        ("api:operator", "yard"),
        ("api:operator", "cron:hourly"),
        ("api:operator", "node:w"),
        ("api:admin", f"token:{token['id']}"),
        ("api:operator", "key:sub:42"),
    } <= by
    of_token = [line for line in lines if line["subject"] == f"token:{token['id']}"]
    assert [line["action"] for line in of_token] == ["revoke_token", "make_token"]
    assert {line["detail"] for line in of_token} == {"viewer ci"}
    [drained] = [line for line in lines if line["action"] == "drain"]
    assert drained["detail"] == f"lease {lease}"
    assert token["token"] not in str(lines)


async def test_bulk_actions_count_first(place: Place, api: httpx.AsyncClient) -> None:
    for _ in range(3):
        await created(api, lane="left")
    await created(api, lane="right")
    ask = {"action": "cancel", "filter": {"lane": "left"}, "dry_run": True}
    assert (await api.post("/api/tasks/actions", json=ask)).json() == {
        "matched": 3, "done": 0, "more": False,
    }  # fmt: skip
    assert (await place.yard.counts())[State.QUEUED] == 4
    done = await api.post("/api/tasks/actions", json={**ask, "dry_run": False})
    assert done.json() == {"matched": 3, "done": 3, "more": False}
    assert (await place.yard.counts())[State.CANCELLED] == 3
    back = {"action": "retry", "filter": {"state": "cancelled"}}
    assert (await api.post("/api/tasks/actions", json=back)).json()["done"] == 3
    everything = await api.post("/api/tasks/actions", json={"action": "cancel", "filter": {}})
    assert (everything.status_code, everything.json()["code"]) == (422, "no_filter")


async def test_bulk_actions_are_bounded(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard.server.limits.MAX_ACTED_ON", 2)
    monkeypatch.setattr("taskyard.server.limits.MAX_PAGE", 1)
    for _ in range(3):
        await created(api)
    ask = {"action": "pause", "filter": {"kind": "greet"}}
    assert (await api.post("/api/tasks/actions", json=ask)).json() == {
        "matched": 2, "done": 2, "more": True,
    }  # fmt: skip
    assert (await api.post("/api/tasks/actions", json=ask)).json()["done"] == 1


@pytest.mark.spec("security-10", part="HTTP")
async def test_secrets_are_hidden_wherever_they_come_up(
    place: Place, api: httpx.AsyncClient
) -> None:
    secret = "hunter2-and-more"
    task_id = await created(
        api, kind="fail", params={"message": "https://me:pass@host failed", "password": secret}
    )
    cron = {"schedule": "0 0 * * *", "kind": "fail", "params": {"password": secret}}
    assert (await api.put("/api/crons/nightly", json=cron)).status_code == 200
    await run_everything(place)
    await place.server.sampler.sample()
    for path in (
        f"/api/tasks/{task_id}",
        f"/api/tasks/{task_id}/explain",
        f"/api/tasks/{task_id}/logs",
        "/api/tasks",
        "/api/requests",
        "/api/queue/list",
        "/api/crons",
        "/api/audit",
        "/api/stats",
        "/api/stats/series",
        "/metrics",
    ):
        answer = await api.get(path)
        assert answer.status_code == 200, path
        assert secret not in answer.text, path
        assert "me:pass" not in answer.text, path
    shown = (await api.get(f"/api/tasks/{task_id}")).json()
    assert shown["payload"]["password"] == "***"
    assert shown["error"]["message"] == "https://me:***@host failed ***"
    assert shown["attempts"][0]["error"]["stack"]


@pytest.mark.spec("security-10", part="HTTP")
async def test_the_login_of_a_store_is_told_to_nobody(
    place: Place, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    async def away() -> None:
        raise StoreUnavailable("postgresql://ann:hunter2@db/yard does not answer")

    monkeypatch.setattr(place.yard.store, "lanes", away)
    answer = await api.get("/api/lanes")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert "postgresql://ann:***@db/yard does not answer" in answer.text
    assert "does not answer" in caplog.text
    assert "hunter2" not in answer.text + caplog.text


@pytest.mark.spec("security-10", part="HTTP")
@pytest.mark.parametrize("part", range(4, 17))
async def test_a_part_of_a_secret_is_hidden_too(
    place: Place, api: httpx.AsyncClient, part: int
) -> None:
    """Where a long message was cut in the middle of it."""
    secret = "hunter2-and-more"
    long = "x" * (MAX_MESSAGE - part - 1)
    task_id = await created(api, kind="fail", params={"message": long, "password": secret})
    await run_everything(place)
    shown = (await api.get(f"/api/tasks/{task_id}")).json()["error"]
    assert shown["message"] == f"{long} ***"


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        (TRACE, TRACE),
        (f"cc{TRACE[2:]}-what-comes-later", TRACE),
        (f"{TRACE}-00", None),
        (f"ff{TRACE[2:]}", None),
        (TRACE.upper(), None),
        (f"00-{'0' * 32}-{'1' * 16}-01", None),
        ("x" * 5_000, None),
    ],
)
async def test_the_trace_of_a_request_is_that_of_its_tasks(
    api: httpx.AsyncClient, header: str, kept: str | None
) -> None:
    headers = {"traceparent": header}
    one = await api.post("/api/tasks", json=GREET, headers=headers)
    many = await api.post("/api/tasks/bulk", json={"tasks": [GREET, GREET]}, headers=headers)

    assert (one.status_code, many.status_code) == (201, 201)
    for task_id in (one.json()["id"], *(item["id"] for item in many.json()["items"])):
        assert (await api.get(f"/api/tasks/{task_id}")).json()["trace"] == kept


def test_a_login_that_was_cut_is_hidden() -> None:
    veil = Veil(None)
    assert veil.text("see https://me:pas", cut=True) == "see https://me:***"
    assert veil.text("see http://host:8080") == "see http://host:8080"
    assert Veil({"token": "abcdefgh"}).text("efgh, then", cut=True) == "***, then"


async def test_names_with_slashes_can_be_asked_for(api: httpx.AsyncClient) -> None:
    await created(api, id="a/b?c#d %2F é", lane="in/out")
    quoted = "a%2Fb%3Fc%23d%20%252F%20%C3%A9"
    assert (await api.get(f"/api/tasks/{quoted}")).json()["id"] == "a/b?c#d %2F é"
    assert (await api.get("/api/lanes/in%2Fout")).json()["queued"] == 1
    for path in ("/api/tasks/a%00b", "/api/tasks/%FF", "/api/tasks/a%1Fb"):
        assert (await api.get(path)).status_code == 400


async def test_the_unexpected_is_not_told_to_callers(
    place: Place, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    async def broken() -> None:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr(place.yard.store, "lanes", broken)
    answer = await api.get("/api/lanes")
    assert (answer.status_code, answer.json()["code"]) == (500, "bug")
    assert "secret of the house" not in answer.text
    name = answer.json()["instance"].rpartition(":")[2]
    assert name in caplog.text
    assert "a secret of the house" in caplog.text


async def all_pages(api: httpx.AsyncClient, path: str, **query: Any) -> list[list[str]]:
    """The ids of each page, until there is no next one."""
    found: list[list[str]] = []
    while True:
        page = (await api.get(path, params=query)).json()
        found.append([one["id"] for one in page["items"]])
        if page["next"] is None:
            return found
        query["cursor"] = page["next"]


async def failed_with(api: httpx.AsyncClient, secret: str, count: int) -> list[str]:
    """Tasks whose payload is too long for a list and whose error says a secret of it."""
    params = {"message": "x" * SHORT_PAYLOAD, "password": secret}
    return [await created(api, kind="fail", params=params) for _ in range(count)]


@pytest.mark.spec("security-10", part="HTTP")
async def test_secrets_of_a_payload_that_is_not_listed_are_hidden(
    place: Place, api: httpx.AsyncClient
) -> None:
    secret = "hunter2-and-more"
    await failed_with(api, secret, 1)
    await run_everything(place)
    [line] = (await place.yard.page()).tasks
    assert line.payload is None
    for query in ({}, {"q": "xxxx"}):
        answer = await api.get("/api/tasks", params=query)
        assert answer.json()["items"][0]["error"]["message"].endswith("x ***"), query
        assert secret not in answer.text


@pytest.mark.spec("security-10", part="HTTP")
async def test_secrets_cannot_be_guessed_by_searching(place: Place, api: httpx.AsyncClient) -> None:
    secret = "hunter2-and-more"
    [long] = await failed_with(api, secret, 1)
    short = await created(api, kind="fail", params={"message": "oh", "password": secret})
    await run_everything(place)
    assert await all_pages(api, "/api/tasks", q="fatal") == [[short, long]]
    for guess in (secret, "hunter", "unter2"):
        assert await all_pages(api, "/api/tasks", q=guess) == [[]]


@pytest.mark.spec("security-11", part="HTTP")
async def test_a_page_for_which_much_must_be_read_ends_early(
    place: Place, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard.server.limits.MAX_OPENED", 2)
    ids = (await failed_with(api, "hunter2-and-more", 5))[::-1]
    await run_everything(place)
    assert await all_pages(api, "/api/tasks") == [ids[:2], ids[2:4], ids[4:]]
    assert await all_pages(api, "/api/tasks", q="xxxx") == [ids[:2], ids[2:4], ids[4:]]


@pytest.mark.spec("lifecycle-7", part="HTTP")
async def test_a_search_that_finds_little_says_where_to_go_on(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard.store.sqlite.find.MAX_LOOKS", 10)
    rare = await created(api, keys=["k"], delay=3600)
    often = [await created(api, keys=["k"]) for _ in range(9)][::-1]
    pages = await all_pages(api, "/api/tasks", key="k", state="pending", limit=5)
    assert pages[:2] == [[], []]
    assert [one for page in pages for one in page] == [rare]
    both = await all_pages(api, "/api/tasks", key="k", limit=4)
    assert [one for page in both for one in page] == [*often, rare]


@pytest.mark.spec("lifecycle-4", part="HTTP")
async def test_requests_of_several_states_come_in_order_and_once(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard.store.sqlite.find.MAX_LOOKS", 10)
    ids = []
    for number in range(12):
        ids.append(await created(api, lane="l", delay=3600 if number % 3 else None))
        if number % 4 == 0:
            await api.post(f"/api/tasks/{ids[-1]}/pause")
    for limit in (1, 2, 5, 50):
        for query in ({}, {"lane": "l"}, {"since": "2020-01-01T00:00:00Z"}):
            pages = await all_pages(api, "/api/requests", state="queued", limit=limit, **query)
            assert [one for page in pages for one in page] == ids[::-1], (limit, query)


async def test_an_id_is_found_by_searching_if_the_filters_let_it_pass(
    api: httpx.AsyncClient,
) -> None:
    task_id, other = await created(api, id="exactly"), await created(api, id="exactly-not")
    for query, wanted in (
        ({}, [task_id]),
        ({"state": "queued", "kind": "greet"}, [task_id]),
        ({"state": "failed"}, []),
        ({"lane": "elsewhere"}, []),
    ):
        assert await all_pages(api, "/api/tasks", q="exactly", **query) == [wanted], query
    assert await all_pages(api, "/api/tasks", q="exactl") == [[other, task_id]]
