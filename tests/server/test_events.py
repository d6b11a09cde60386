"""The stream of events, over a real connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskyard.server import limits, streams
from taskyard.server.feed import Feed
from taskyard.server.roles import Role
from tests.server.listening import listening, watching
from tests.server.place import Place


async def test_whoever_watches_is_told(place: Place) -> None:
    async with listening(place) as base, watching(place, base) as watcher:
        assert watcher.answer.headers["Content-Type"].startswith("text/event-stream")
        assert await watcher.next() == {"retry": "2000"}
        await place.caller().post("/api/tasks", json={"kind": "greet", "params": {"name": "x"}})
        event = await watcher.until("tasks")
        assert json.loads(event["data"]) == {"ids": [], "more": True}
        sample = json.loads((await watcher.until("stats"))["data"])
        assert {"at", "queued", "running", "lanes", "run", "wait"} <= set(sample)


async def test_numbers_grow(place: Place) -> None:
    async with listening(place) as base, watching(place, base) as watcher:
        await watcher.next()
        place.server.feed.publish("lanes", {"names": ["a"]})
        place.server.feed.publish("lanes", {"names": ["b"]})
        first, second = await watcher.until("lanes"), await watcher.until("lanes")
        assert int(second["id"]) > int(first["id"])


async def test_a_watcher_goes_on_where_it_was(place: Place) -> None:
    feed = place.server.feed
    feed.publish("lanes", {"names": ["seen"]})
    seen = feed.last
    feed.publish("lanes", {"names": ["missed"]})
    async with listening(place) as base, watching(place, base, last=str(seen)) as watcher:
        assert json.loads((await watcher.until("lanes"))["data"]) == {"names": ["missed"]}


@pytest.mark.parametrize("last", ["0", "5", "99999999999999999999", "nonsense", "-1"])
async def test_one_that_was_away_too_long_is_told_to_begin_anew(place: Place, last: str) -> None:
    async with listening(place) as base, watching(place, base, last=last) as watcher:
        event = await watcher.until("reset")
        assert json.loads(event["data"])["last"] == int(event["id"])
        assert int(event["id"]) <= place.server.feed.last


async def test_silence_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.0)
    place = Place(tmp_path, sample_seconds=3600.0)
    await place.server.start()
    async with listening(place) as base, watching(place, base) as watcher:
        while "" not in await watcher.next():
            pass
    await place.close()


@pytest.mark.spec("security-6")
async def test_a_revoked_token_is_disconnected(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LOOK_AT_TOKEN", 0.01)
    admin = place.caller(Role.ADMIN)
    tokens = {one["role"]: one for one in (await admin.get("/api/tokens")).json()["items"]}
    async with listening(place) as base, watching(place, base) as watcher:
        await watcher.next()
        await admin.delete(f"/api/tokens/{tokens['viewer']['id']}")
        await watcher.end()
    assert place.server.streams.open == 0


@pytest.mark.spec("security-11", part="HTTP")
async def test_streams_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, max_streams=1)
    await place.server.start()
    left = asyncio.Event()
    leave = streams.Place.leave

    def leaving(seat: streams.Place) -> None:
        leave(seat)
        left.set()

    monkeypatch.setattr(streams.Place, "leave", leaving)
    async with listening(place) as base:
        async with watching(place, base) as first:
            await first.next()
            async with watching(place, base) as second:
                assert second.answer.status_code == 429
                assert second.answer.headers["Retry-After"]
        await left.wait()
        async with watching(place, base) as third:
            assert third.answer.status_code == 200
    await place.close()


@pytest.mark.spec("security-11", part="HTTP")
async def test_connections_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 2)
    async with listening(place) as base, watching(place, base) as first:
        await first.next()
        async with httpx.AsyncClient(base_url=base) as other:
            assert (await other.get("/healthz")).status_code == 503


async def test_one_who_leaves_before_the_first_event_gives_its_place_back(place: Place) -> None:
    token = place.tokens[Role.VIEWER]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": "/api/events", "raw_path": b"/api/events", "query_string": b"",
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8321),
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())],
    }  # fmt: skip
    entered = 0

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal entered
        entered = max(entered, place.server.streams.open)

    await place.server(scope, gone, send)
    assert (entered, place.server.streams.open) == (1, 0)


def test_a_place_is_given_back_once() -> None:
    places = streams.Streams(2)
    first, _ = places.enter(), places.enter()
    first.leave()
    first.leave()
    assert places.open == 1


def test_a_number_of_another_server_is_not_taken_for_ours() -> None:
    one, other = Feed(), Feed()
    for feed in (one, other):
        for _ in range(500):
            feed.publish("tasks", {})
    assert one.since(other.last - 250) is None


def test_the_feed_keeps_so_many() -> None:
    feed = Feed(kept=2)
    begun = feed.last
    assert feed.since(begun) == []
    for name in ("a", "b", "c"):
        feed.publish(name, {})
    assert feed.since(begun) is None
    assert [event.name for event in feed.since(begun + 1) or ()] == ["b", "c"]
    assert feed.since(feed.last) == []
    assert feed.since(feed.last + 1) is None
