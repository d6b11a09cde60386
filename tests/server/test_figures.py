"""Statistics, charts, autoscaling and metrics."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from taskyard.domain.clock import seconds
from taskyard.domain.node import NewNode
from taskyard.domain.statistics import HOUR, RUN, RUN_SUM, WAIT, WAIT_SUM, Count, bucket_of
from taskyard.domain.task import Task, TaskQuery
from taskyard.server import metrics
from taskyard.server.lately import Lately
from taskyard.server.sampler import Sampler
from taskyard.server.totals import Totals
from taskyard.store.port import ClaimRequest
from taskyard.store.sqlite.store import SqliteStore
from tests.server.place import Place
from tests.server.test_tasks import created

DONE = [
    Count("greet", "default", "completed", 9),
    Count("greet", "default", "failed", 1),
    Count("greet", "default", RUN, 10, bucket_of(0.1)),
    Count("greet", "default", WAIT, 10, bucket_of(2.0)),
    Count("greet", "default", RUN_SUM, 1_000_000),
    Count("greet", "default", WAIT_SUM, 20_000_000),
]


@pytest.mark.spec("lifecycle-16")
async def test_kinds_and_lanes(place: Place, api: httpx.AsyncClient) -> None:
    await place.yard.store.tally(DONE)
    await created(api)
    stats = (await api.get("/api/stats")).json()
    [kind] = stats["kinds"]
    assert (kind["kind"], kind["count"], kind["success"]) == ("greet", 10, 0.9)
    assert kind["run"]["mean"] == pytest.approx(0.1)
    assert kind["wait"]["p99"] == pytest.approx(2.0, rel=0.15)
    [lane] = stats["lanes"]
    assert (lane["lane"], lane["queued"], lane["running"]) == ("default", 1, 0)
    assert lane["oldest_age"] >= 0


async def test_the_oldest_is_found_among_many(place: Place, api: httpx.AsyncClient) -> None:
    first, *_, last = [await created(api, lane="long") for _ in range(40)]
    await created(api, lane="other")
    oldest = place.server.oldest
    found = await oldest._find("long")
    assert found is not None
    assert found.id == first
    oldest._known["long"] = found.no
    again = await oldest._find("long")
    assert again is not None
    assert again.id == first
    for task in await place.yard.find():
        if task.lane == "long" and task.id != last:
            await place.yard.cancel(task.id)
    left = await oldest._find("long")
    assert left is not None
    assert left.id == last
    await place.yard.cancel(last)
    assert await oldest._find("long") is None


async def test_the_next_oldest_is_found_soon(
    place: Place, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await created(api) for _ in range(40)]
    oldest, find, asked = place.server.oldest, place.yard.store.find, []

    async def counting(query: TaskQuery) -> list[Task]:
        asked.append(query)
        return await find(query)

    monkeypatch.setattr(place.yard.store, "find", counting)
    for task_id in ids[:38]:
        await place.yard.cancel(task_id)
    oldest._known["default"] = (await place.yard.get(ids[37])).no
    found = await oldest._find("default")
    assert found is not None
    assert found.id == ids[38]
    assert len(asked) <= 3
    await api.post(f"/api/tasks/{ids[5]}/retry")  # an older one is back
    oldest._known["default"] = found.no
    back = await oldest._find("default")
    assert back is not None
    assert back.id == ids[5]


async def test_what_happens_is_sampled(place: Place, api: httpx.AsyncClient) -> None:
    store = place.yard.store
    sampler = Sampler(store, Totals(store), place.server.feed, 2.0)
    await sampler.sample()
    await place.yard.store.tally(DONE)
    await created(api)
    sample = await sampler.sample()
    assert sample.queued == 1
    assert sample.run.count == 10
    assert sample.lanes["default"].queued == 1
    again = await sampler.sample()
    assert again.run.count == 10  # still within the window, and counted once
    assert again.finished_per_second > 0
    assert again.completed_per_second == pytest.approx(9 * again.failed_per_second)


async def test_hours_that_are_over_are_not_read_again(place: Place) -> None:
    store = place.yard.store
    assert isinstance(store, SqliteStore)
    totals = Totals(store)
    begin = (await store.now() // HOUR + 1) * HOUR
    key = ("greet", "default", "completed", 0)
    for hour in range(5):
        for minute in (0.2, 30):
            moment = begin + hour * HOUR + int(minute * HOUR / 60)
            store.clock.advance(seconds(moment - await store.now()))
            await store.tally(DONE)
            assert (await totals.look(await store.now()))[key] == 9 * (2 * hour + 1 + (minute > 1))
        assert totals._base == begin + hour * HOUR


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_that_are_steady_give_a_steady_rate(workers: int) -> None:
    """Each tells every ten seconds what it has done, at a moment of its own."""
    lately = Lately()
    done = {("greet", "default", "completed", 0): 50}
    seen = []
    for tenth in range(600):
        for worker in range(workers):
            if tenth % 100 == 7 + 13 * worker:
                lately.add(tenth / 10, done)
        if tenth > 250:
            seen.append(lately.rates(tenth / 10)["completed"])
    assert seen == pytest.approx([5.0 * workers] * len(seen))


def test_what_has_ended_long_ago_is_not_lately() -> None:
    lately = Lately()
    lately.add(0.0, {("greet", "default", "completed", 0): 5})
    assert lately.rates(10.0) == {"completed": 0.5}
    assert lately.rates(20.0)["completed"] == 0
    lately.add(20.0, {("greet", "default", "failed", 0): 1})
    assert [count.what for count in lately.counts()] == ["failed"]


async def test_charts_get_their_points(place: Place, api: httpx.AsyncClient) -> None:
    await place.server.sampler.sample()
    series = (await api.get("/api/stats/series", params={"minutes": 60})).json()
    assert series["every"] == 2.0
    assert series["points"]
    assert (await api.get("/api/stats/series", params={"minutes": 61})).status_code == 400


async def test_how_many_slots_a_lane_could_use(api: httpx.AsyncClient) -> None:
    await api.patch("/api/lanes/narrow", json={"capacity": 1})
    for lane in ("narrow", "narrow", "wide", "wide", "closed"):
        await created(api, lane=lane)
    await api.post("/api/lanes/closed/pause")
    answer = (await api.get("/api/autoscale")).json()
    assert {one["lane"]: one["wanted"] for one in answer["items"]} == {
        "closed": 0, "narrow": 1, "wide": 2,
    }  # fmt: skip
    assert answer["wanted"] == 3
    assert (await api.get("/api/autoscale", params={"lane": "wide"})).json()["wanted"] == 2


def figures(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics(place: Place, api: httpx.AsyncClient) -> None:
    await created(api)
    await api.get("/metrics")
    await place.yard.store.register(NewNode(id="n", kinds=("greet",), slots=3))
    await place.yard.store.tally(DONE)
    answer = await api.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = figures(answer.text)
    of_kind = (("kind", "greet"), ("lane", "default"))
    assert found["taskyard_lane_tasks", (("lane", "default"), ("state", "queued"))] == 1
    assert found["taskyard_finishes_total", (*of_kind, ("outcome", "completed"))] == 9
    assert found["taskyard_claims_total", of_kind] == 10
    assert found["taskyard_run_seconds_count", of_kind] == 10
    assert found["taskyard_run_seconds_sum", of_kind] == pytest.approx(1.0)
    assert found["taskyard_wait_seconds_bucket", (*of_kind, ("le", "2.5"))] == 10
    assert found["taskyard_wait_seconds_bucket", (*of_kind, ("le", "1.0"))] == 0
    assert found["taskyard_slots", ()] == 3
    assert found["taskyard_leases_lost_total", ()] == 0
    assert ("taskyard_process_memory_bytes", ()) in found


async def test_metrics_name_no_task(place: Place, api: httpx.AsyncClient) -> None:
    task_id = await created(api, keys=["sub:42"], group="g-17")
    text = (await api.get("/metrics")).text
    for word in (task_id, "sub:42", "g-17"):
        assert word not in text
    labels = {name for _, pairs in figures(text) for name, _ in pairs}
    assert labels <= {"lane", "kind", "state", "outcome", "le", "verb"}


async def test_a_lost_lease_is_counted(place: Place, api: httpx.AsyncClient) -> None:
    await api.get("/metrics")
    await created(api)
    lease = await place.yard.store.register(NewNode(id="n", kinds=("greet",), slots=1))
    await place.yard.store.claim(ClaimRequest(lease=lease, number=1, room=1))
    await place.yard.store.rescue([lease], ended=False)
    assert figures((await api.get("/metrics")).text)["taskyard_leases_lost_total", ()] == 1


async def test_lost_leases_are_counted_once_however_many_ask_and_whatever_else_was_done(
    place: Place, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "PIECE", 2)
    await api.get("/metrics")
    for number in range(3):
        node = NewNode(id=f"n{number}", kinds=("greet",), slots=1)
        await created(api)
        lease = await place.yard.store.register(node)
        await place.yard.store.claim(ClaimRequest(lease=lease, number=1, room=1))
        await place.yard.store.rescue([lease], ended=False)
        await api.patch("/api/lanes/x", json={"capacity": number})
    answers = await asyncio.gather(*(api.get("/metrics") for _ in range(4)))
    counts = [figures(answer.text)["taskyard_leases_lost_total", ()] for answer in answers]
    assert max(counts) == 3
    assert figures((await api.get("/metrics")).text)["taskyard_leases_lost_total", ()] == 3


GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "server.md").read_text("utf-8")
GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana" / "taskyard.json"


async def families(api: httpx.AsyncClient) -> set[str]:
    text = (await api.get("/metrics")).text
    return {family.name for family in text_string_to_metric_families(text)}


async def test_every_metric_is_in_the_guide(place: Place, api: httpx.AsyncClient) -> None:
    told = set(re.findall(r"`(taskyard_[a-z_]+)`", GUIDE))
    assert {name.removesuffix("_created") for name in await families(api)} == told


async def test_the_grafana_dashboard_asks_for_what_there_is(api: httpx.AsyncClient) -> None:
    board = json.loads(GRAFANA.read_text("utf-8"))
    asked = {target["expr"] for panel in board["panels"] for target in panel.get("targets", ())}
    assert len(asked) > 8
    named = {name for expr in asked for name in re.findall(r"taskyard_[a-z_]+", expr)}
    plain = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in named}
    assert plain <= await families(api)
