"""What bodies say, over HTTP: page by page, and as they say it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from taskyard import Context, Retry, Yard
from taskyard.domain.errors import StoreError
from taskyard.domain.logs import MAX_LINE_BYTES, MAX_LINES, LogLine, LogMark
from taskyard.server import following, streams
from taskyard.server.roles import Role
from tests.server.listening import Watcher, listening, watching
from tests.server.place import Place
from tests.server.test_tasks import created

HOSTILE = (
    "<script>alert(1)</script><img onerror=alert(2)>\r\n\n\x1b[31mred\x1b[0m\u2028\x85\x9b0m\x7f"
    "event: end\ndata: {}\n\nid: 9.9"
)


@pytest.fixture
def place(stored: Place) -> Place:
    return stored


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard.engine.logbook.EVERY", 0.02)
    monkeypatch.setattr("taskyard.verbs.logs.LOOK_EVERY", 0.02)


class Talker:
    """A kind whose bodies say what they are told to say, one text at a time."""

    def __init__(self, yard: Yard) -> None:
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self.lines: list[tuple[int, str]] = []

        @yard.task(retry=Retry.fixed(5, delay=0.0))
        async def talk(ctx: Context, password: str = "") -> None:
            while (text := await self._texts.get()) is not None:
                if text == "fail":
                    raise ConnectionError
                self.lines.append((ctx.attempt, text))
                ctx.log.info(text)

    def say(self, *texts: str) -> None:
        """`fail` ends an attempt."""
        for text in texts:
            self._texts.put_nowait(text)

    def end(self) -> None:
        self._texts.put_nowait(None)


@asynccontextmanager
async def talking(place: Place, **task: Any) -> AsyncIterator[tuple[str, Talker]]:
    """A task that talks, while it runs."""
    talker = Talker(place.yard)
    [answer] = await place.yard.enqueue(place.yard.kind("talk").new(**task))
    worker = place.yard.worker(slots=1)
    await worker.start()
    try:
        yield getattr(answer, "id", ""), talker
    finally:
        talker.end()
        await worker.stop()


async def talked(place: Place, *texts: str, **task: Any) -> str:
    """A task that has said this, and ended."""
    async with talking(place, **task) as (task_id, talker):
        talker.say(*texts)
        talker.end()
        await place.yard.ending(task_id, 30)
    return task_id


def told(items: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(one["attempt"], one["number"], one["text"]) for one in items]


async def lines_of(watcher: Watcher) -> list[tuple[int, int, str]]:
    return told(json.loads((await watcher.until("lines"))["data"]))


def stream_of(task_id: str) -> str:
    return f"/api/tasks/{task_id}/logs/stream"


TWO_ATTEMPTS = ("a", "b", "c", "fail", "d", "e")
ALL = [(1, 1, "a"), (1, 2, "b"), (1, 3, "c"), (2, 1, "d"), (2, 2, "e")]


@pytest.mark.spec("lifecycle-17")
async def test_lines_are_read_page_by_page(place: Place) -> None:
    task_id = await talked(place, *TWO_ATTEMPTS)
    viewer = place.caller(Role.VIEWER)
    path = f"/api/tasks/{task_id}/logs"
    whole = (await viewer.get(path)).json()
    assert told(whole["items"]) == ALL
    assert whole["next"] is None
    [first] = [one for one in whole["items"] if one["text"] == "a"]
    assert set(first) == {"attempt", "number", "at", "level", "text"}
    assert (first["level"], first["at"][-1]) == ("info", "Z")
    for query, wanted in (({}, ALL), ({"attempt": 1}, ALL[:3]), ({"attempt": 2}, ALL[3:])):
        for limit in (1, 2, 3, 5):
            found: list[tuple[int, int, str]] = []
            params: dict[str, Any] = {**query, "limit": limit}
            while True:
                page = (await viewer.get(path, params=params)).json()
                assert len(page["items"]) == min(limit, len(wanted) - len(found))
                found += told(page["items"])
                if page["next"] is None:
                    break
                params["after"] = page["next"]
            assert found == wanted, params
    assert (await viewer.get(path, params={"attempt": 3})).json() == {"items": [], "next": None}


@pytest.mark.spec("lifecycle-17")
async def test_whoever_watches_hears_it_while_it_is_said(place: Place) -> None:
    async with (
        listening(place) as base,
        talking(place) as (task_id, talker),
        watching(place, base, path=stream_of(task_id)) as watcher,
    ):
        assert watcher.answer.headers["Content-Type"].startswith("text/event-stream")
        talker.say("one")
        assert await lines_of(watcher) == [(1, 1, "one")]
        assert (await place.yard.get(task_id)).state == "running"
        talker.say("two", "fail", "three")
        heard: list[tuple[int, int, str]] = []
        while len(heard) < 2:
            heard += await lines_of(watcher)
        assert heard == [(1, 2, "two"), (2, 1, "three")]
        talker.say("four")
        talker.end()
        event = await watcher.until("lines")
        assert (told(json.loads(event["data"])), event["id"]) == ([(2, 2, "four")], "2.2")
        last = await watcher.next()
        assert (last["event"], json.loads(last["data"])) == ("end", {"state": "completed"})
        assert "id" not in last
        assert await watcher.rest() == []
    assert place.server.streams.open == 0


async def test_one_who_comes_back_misses_nothing_and_hears_nothing_twice(place: Place) -> None:
    task_id = await talked(place, *TWO_ATTEMPTS)
    async with listening(place) as base:
        for seen in range(len(ALL) + 1):
            last = None if not seen else "{}.{}".format(*ALL[seen - 1])
            async with watching(place, base, last=last, path=stream_of(task_id)) as watcher:
                *events, end = (await watcher.rest())[1:]
            heard = [line for event in events for line in told(json.loads(event["data"]))]
            assert heard == ALL[seen:], last
            assert [event["id"] for event in events] == ["2.2"] * (seen < len(ALL))
            assert json.loads(end["data"]) == {"state": "completed"}


async def test_one_who_leaves_while_it_talks_can_come_back(place: Place) -> None:
    async with listening(place) as base, talking(place) as (task_id, talker):
        heard: list[tuple[int, int, str]] = []
        last = None
        for number in range(4):
            talker.say(f"{number}a", f"{number}b", *["fail"] * (number == 1))
            async with watching(place, base, last=last, path=stream_of(task_id)) as watcher:
                while len(heard) < 2 * (number + 1):
                    event = await watcher.until("lines")
                    heard += told(json.loads(event["data"]))
                    last = event["id"]
    assert [(attempt, text) for attempt, _, text in heard] == talker.lines


async def test_lines_that_were_dropped_are_told_of(place: Place) -> None:
    task_id = await talked(place, *(str(number) for number in range(MAX_LINES + 7)))
    items = (await place.caller().get(f"/api/tasks/{task_id}/logs")).json()["items"]
    assert items[0]["text"].startswith("(7 lines were dropped here")
    assert told(items)[1] == (1, 8, "7")
    async with (
        listening(place) as base,
        watching(place, base, path=stream_of(task_id)) as watcher,
    ):
        heard = await lines_of(watcher)
        assert (len(heard), heard[-1]) == (MAX_LINES + 1, (1, MAX_LINES + 7, str(MAX_LINES + 6)))
        assert (await watcher.next())["event"] == "end"


async def test_the_store_is_asked_once_for_all_who_follow(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_logs, asked = place.yard.follow_logs, []

    def counting(task_id: str, *, after: LogMark | None = None) -> AsyncIterator[LogLine]:
        asked.append(after)
        return follow_logs(task_id, after=after)

    monkeypatch.setattr(place.yard, "follow_logs", counting)
    async with talking(place) as (task_id, talker):
        followers = [place.server.following.follow(task_id, (0, 0)) for _ in range(5)]
        for text in ("one", "two", "three"):
            talker.say(text)
            assert [await next_texts(one) for one in followers] == [[text]] * 5
        talker.end()
        for one in followers:
            while not one.is_over:
                await one.wait(30)
            assert (await one.take(), one.state) == ([], "completed")
        assert len(asked) == 1
        late = place.server.following.follow(task_id, (1, 1))  # what is over is not joined
        assert [line.text for line in await late.take()] == ["two", "three"]
        while not late.is_over:
            await late.wait(30)
        assert late.state == "completed"
        assert asked[1:] == [(1, 3)]
        for one in (*followers, late):
            one.leave()
            one.leave()


async def next_texts(follower: following.Follower) -> list[str]:
    while not (lines := await follower.take()):
        await follower.wait(30)
    return [line.text for line in lines]


async def test_one_that_is_behind_is_told_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "KEPT", 2)
    texts = [str(number) for number in range(10)]
    async with talking(place) as (task_id, talker):
        slow, quick = [place.server.following.follow(task_id, (0, 0)) for _ in range(2)]
        talker.say("first")
        assert [await next_texts(slow), await next_texts(quick)] == [["first"]] * 2
        for text in texts:
            talker.say(text)
            assert await next_texts(quick) == [text]
        assert await next_texts(slow) == texts
        for one in (slow, quick):
            one.leave()


async def test_a_task_that_is_gone_is_followed_no_more(place: Place) -> None:
    followed = place.server.following.enter("nonsuch", (0, 0))
    while not followed.is_over:
        await followed.wait(30)
    assert followed.state is None
    place.server.following.leave(followed)


@pytest.mark.spec("security-13")
@pytest.mark.parametrize(
    "task_id", ["nonsuch", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "..", "a%00b"]
)
async def test_there_are_logs_of_tasks_and_nothing_else(place: Place, task_id: str) -> None:
    for path in (f"/api/tasks/{task_id}/logs", stream_of(task_id)):
        answer = await place.caller().get(path)
        assert answer.status_code in (400, 404), path
        assert answer.headers["Content-Type"] == "application/problem+json"


async def test_what_is_no_place_in_a_log_is_refused(place: Place) -> None:
    task_id = await talked(place, "a")
    caller, path = place.caller(), f"/api/tasks/{task_id}/logs"
    tasks_cursor, far = "bm86MQ", "bGluZToxLjk5OTk5OTk5OTk5OQ"  # no:1, line:1.999999999999
    for cursor in ("nonsense", tasks_cursor, far, "bGluZTo", "bGluZTotMS4x", "🙂"):
        answer = await caller.get(path, params={"after": cursor})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor"), cursor
    for last in ("nonsense", "1", "1.", ".1", "-1.1", "1.1.1", "99999999999.1", "1.x"):
        answer = await caller.get(f"{path}/stream", headers={"Last-Event-ID": last})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor"), last
    for wrong in ({"limit": 0}, {"limit": 1001}, {"attempt": 0}, {"attempt": 2**31}):
        answer = await caller.get(path, params=wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), wrong


@pytest.mark.spec("security-9")
@pytest.mark.spec("security-15")
async def test_whatever_is_said_is_data(place: Place) -> None:
    task_id = await talked(place, HOSTILE, "after")
    answer = await place.caller().get(f"/api/tasks/{task_id}/logs")
    assert [one["text"] for one in answer.json()["items"]] == [HOSTILE, "after"]
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    async with (
        listening(place) as base,
        watching(place, base, path=stream_of(task_id)) as watcher,
    ):
        event = await watcher.until("lines")
        assert event["data"].isprintable()
        assert told(json.loads(event["data"])) == [(1, 1, HOSTILE), (1, 2, "after")]
        assert json.loads((await watcher.next())["data"]) == {"state": "completed"}
        assert await watcher.rest() == []


@pytest.mark.spec("security-10", part="HTTP")
async def test_a_secret_that_a_body_says_is_hidden(place: Place) -> None:
    secret = "hunter2-correct-horse"
    head = "x" * (MAX_LINE_BYTES // 2 - 30)
    cuts = [head + "y" * shift + secret + "z" * MAX_LINE_BYTES for shift in range(0, 40, 3)]
    cuts += [text[::-1].replace(secret[::-1], secret) for text in cuts]
    task_id = await talked(place, f"it is {secret}, he said", *cuts, password=secret)
    answer = await place.caller().get(f"/api/tasks/{task_id}/logs")
    shown = [one["text"] for one in answer.json()["items"]]
    assert shown[0] == "it is ***, he said"
    async with (
        listening(place) as base,
        watching(place, base, path=stream_of(task_id)) as watcher,
    ):
        assert [text for _, _, text in await lines_of(watcher)] == shown
    parts = [secret[at : at + 4] for at in range(len(secret) - 3)]
    for text in shown:
        assert not [part for part in parts if part in text], text
    assert any("left out" in text and "***" in text for text in shown)


@pytest.fixture
async def single(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path, max_streams=1)
    await made.server.start()
    yield made
    await made.close()


@pytest.mark.spec("security-6")
async def test_a_revoked_token_is_disconnected(
    single: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LOOK_AT_TOKEN", 0.01)
    admin = single.caller(Role.ADMIN)
    tokens = {one["role"]: one for one in (await admin.get("/api/tokens")).json()["items"]}
    task_id = await created(admin)
    async with (
        listening(single) as base,
        watching(single, base, path=stream_of(task_id)) as watcher,
    ):
        await watcher.next()
        await admin.delete(f"/api/tokens/{tokens['viewer']['id']}")
        assert [one for one in await watcher.rest() if "event" in one] == []
    assert single.server.streams.open == 0


@pytest.mark.spec("security-11", part="HTTP")
async def test_all_streams_together_are_bounded(single: Place) -> None:
    task_id = await created(single.caller())
    async with listening(single) as base, watching(single, base) as first:
        await first.next()
        async with watching(single, base, path=stream_of(task_id)) as second:
            assert second.answer.status_code == 429
            assert second.answer.headers["Retry-After"]


async def test_silence_is_broken(single: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.0)
    task_id = await created(single.caller())
    async with (
        listening(single) as base,
        watching(single, base, path=stream_of(task_id)) as watcher,
    ):
        while "" not in await watcher.next():
            pass


async def test_a_server_that_stops_lets_everybody_go(single: Place) -> None:
    task_id = await created(single.caller())
    async with (
        listening(single) as base,
        watching(single, base, path=stream_of(task_id)) as watcher,
    ):
        await watcher.next()
        single.server.end_streams()
        assert [one for one in await watcher.rest() if "event" in one] == []


async def test_a_store_that_is_away_ends_the_stream(
    single: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes back is told more."""

    async def away(*_: Any, **__: Any) -> list[LogLine]:
        raise StoreError("away")

    task_id = await created(single.caller())
    monkeypatch.setattr(single.yard.store, "task_logs", away)
    async with (
        listening(single) as base,
        watching(single, base, path=stream_of(task_id)) as watcher,
    ):
        assert await watcher.rest() == [{"retry": "2000"}]
    assert (await single.caller().get(f"/api/tasks/{task_id}/logs")).status_code == 503
