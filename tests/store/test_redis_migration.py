"""A yard of an older layout is brought into this one when it is opened."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis import Redis

from taskyard.domain.errors import SchemaMismatch
from taskyard.domain.lane import LaneChange
from taskyard.domain.logs import Level, LogLine, LogPage, MovedLine, NewLine
from taskyard.domain.node import Hold
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Dedup, TaskQuery
from taskyard.store.redis import migrate
from taskyard.store.redis.address import parse
from taskyard.store.redis.scripts import key_prefix
from taskyard.store.redis.store import RedisStore
from tests.conformance.verbs import complete, ids, new, node, refused_as_duplicate, seen, state_of
from tests.servers.redis import RedisServer

PREFIX = key_prefix("taskyard")
HERE = Path(__file__).parent
OLDER = {version: HERE / f"test_redis_schema_{version}.json" for version in (1, 2, 3)}
"""Yards as the last release with that layout left them, keys and their members in base64."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer("--appendonly", "no")
    made.start()
    yield made
    made.remove()


@pytest.fixture(params=OLDER)
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def admin(server: RedisServer, version: int) -> Iterator[Any]:
    """With a yard of an older layout."""
    with Redis(port=server.port) as admin:
        admin.flushall()
        load(admin, json.loads(OLDER[version].read_text()))
        yield admin


@pytest.fixture
async def store(server: RedisServer, admin: Any) -> AsyncIterator[RedisStore]:
    """Not opened yet."""
    store = RedisStore(parse(server.url))
    yield store
    await store.close()


def load(admin: Any, yard: dict[str, Any]) -> None:
    for name, (kind, content) in yard.items():
        key = PREFIX + name
        match kind:
            case "hash":
                admin.hset(key, mapping={b64decode(k): b64decode(v) for k, v in content.items()})
            case "zset":
                admin.zadd(key, {b64decode(member): score for member, score in content})
            case _:
                for number, line in content:
                    pairs = {b64decode(k): b64decode(v) for k, v in line.items()}
                    admin.xadd(key, pairs, id=number)


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("step", [2, 1000])
async def test_a_yard_of_an_older_layout_goes_on(
    store: RedisStore, version: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "STEP", step)
    assert (await store.schema()).version == version
    await store.open()
    assert (await store.schema()).current

    worker = await node(store)
    await store.promote()
    [lost] = await store.rescue()
    assert [verdict.id for verdict in lost.verdicts] == ["running"]
    started = await worker.claim(10)
    by_priority = ["parked", "first", "second", "pending", "late"]
    assert [name for name in ids(started) if name != "narrow"] == by_priority
    assert await refused_as_duplicate(store, dedup=Dedup("kept")) == "second"
    await complete(store, *started)
    assert await worker.claim_ids(10) == ["running"]


@pytest.mark.spec("engine-30")
async def test_nothing_of_it_is_lost(store: RedisStore) -> None:
    await store.open()

    tasks = await store.find(TaskQuery(limit=100))
    assert {task.id: (task.state, task.priority) for task in tasks} == {
        "completed": (State.COMPLETED, 5),
        "failed": (State.FAILED, 5),
        "cancelled": (State.CANCELLED, 5),
        "running": (State.RUNNING, 5),
        "pending": (State.PENDING, 3),
        "parked": (State.QUEUED, 1),
        "first": (State.QUEUED, 2),
        "second": (State.QUEUED, 2),
        "late": (State.QUEUED, 9),
        "narrow": (State.QUEUED, 5),
        "stopped": (State.QUEUED, 5),
    }
    assert all(task.seq == task.no for task in tasks)
    assert (await seen(store, "parked")).parked_on == "k"
    assert await state_of(store, "failed") == (State.FAILED, Reason.ERROR)
    lanes = {lane.name: lane for lane in await store.lanes()}
    assert (lanes["narrow"].capacity, lanes["stopped"].paused_reason) == (3, "disk")
    assert [rule.limit for rule in await store.key_rules()] == [4]


@pytest.mark.spec("engine-3", "engine-30")
async def test_the_rules_of_keys_and_of_prefixes_hold_on(store: RedisStore, admin: Any) -> None:
    admin.hset(f"{PREFIX}key_rules", mapping={"host:*": 2, "host:big": 3})
    await store.open()
    worker = await node(store, slots=10, kinds=("fetch",))
    for key in ("host:a", "host:big"):
        await store.enqueue([new("fetch", id=f"{key} {n}", keys=(key,)) for n in range(4)])

    limits = {rule.pattern: rule.limit for rule in await store.key_rules()}
    assert (limits["host:*"], limits["host:big"]) == (2, 3)
    assert sorted(await worker.claim_ids(10)) == [
        *("host:a 0", "host:a 1"),
        *("host:big 0", "host:big 1", "host:big 2"),
    ]


@pytest.mark.spec("engine-30")
async def test_a_migration_that_was_interrupted_is_made_again(
    store: RedisStore, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "STEP", 2)
    write, calls = store._link.write, 0

    async def cut_off(verb: str, *args: object) -> Any:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise ConnectionError
        return await write(verb, *args)

    monkeypatch.setattr(store._link, "write", cut_off)
    with pytest.raises(ConnectionError):
        await store.open()
    monkeypatch.undo()
    assert (await store.schema()).version == version
    await store.open()

    worker = await node(store)
    assert await worker.claim_ids(3) == ["first", "narrow", "second"]


@pytest.mark.spec("engine-30")
async def test_a_yard_with_workers_of_the_older_release_is_left_alone(
    store: RedisStore, admin: Any, version: int
) -> None:
    [(lease, packed)] = admin.hgetall(f"{PREFIX}leases").items()
    row = msgspec.msgpack.decode(packed)
    row[0] = 4 * 10**15
    admin.hset(f"{PREFIX}leases", lease, msgspec.msgpack.encode(row))
    before = admin.hgetall(f"{PREFIX}lives")

    with pytest.raises(SchemaMismatch, match="whose workers run there: node-a"):
        await store.open()

    assert admin.hgetall(f"{PREFIX}lives") == before
    assert (await store.schema()).version == version


@pytest.mark.spec("engine-30")
async def test_workers_that_start_together_do_not_refuse_each_other(
    store: RedisStore, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has migrated and works while another is still at it."""
    monkeypatch.setattr(migrate, "STEP", 2)
    sooner = RedisStore(parse(server.url))
    write, overtaken = store._link.write, False

    async def overtake(verb: str, *args: object) -> Any:
        nonlocal overtaken
        if verb == "migrate" and args[1] and not overtaken:
            overtaken = True
            await sooner.open()
            await node(sooner)
        return await write(verb, *args)

    monkeypatch.setattr(store._link, "write", overtake)
    try:
        await store.open()
    finally:
        await sooner.close()

    assert overtaken
    assert (await store.schema()).current
    worker = await node(store)
    assert await worker.claim_ids(3) == ["first", "narrow", "second"]


@pytest.mark.spec("engine-30")
async def test_a_program_that_a_migration_has_overtaken_changes_nothing(
    store: RedisStore, admin: Any
) -> None:
    """It was opened before; what it would write nobody could read."""
    await store.open()
    admin.hset(f"{PREFIX}meta", "schema", 1000)
    before = {key: admin.dump(key) for key in admin.scan_iter()}
    plain, keyed = [new(id="plain")], [new(id="keyed", keys=("a", "b"))]

    for attempt in (
        lambda: store.enqueue(plain),
        lambda: store.enqueue(keyed),
        lambda: node(store),
        lambda: store.cancel("first", actor="ann"),
        lambda: store.retry("failed", actor="ann"),
        lambda: store.set_lane("narrow", LaneChange(capacity=1), actor="ann"),
        lambda: store.get("first"),
        lambda: store.endings(["first"]),
        lambda: store.page(TaskQuery()),
        lambda: store.append_logs([LogPage(Hold(1, 1, 1), (NewLine(1, 0, Level.INFO, "late"),))]),
        lambda: store.import_logs([MovedLine(1, LogLine(1, 1, 0, Level.INFO, "late"))]),
        lambda: store.task_logs("first"),
        lambda: store.note("drain", "node-1", "", actor="ann"),
    ):
        with pytest.raises(SchemaMismatch, match=r"newer Taskyard \(schema 1000, this one"):
            await attempt()

    assert {key: admin.dump(key) for key in admin.scan_iter()} == before


@pytest.mark.spec("engine-30")
async def test_a_yard_that_lost_everything_knows_its_layout_again(
    store: RedisStore, admin: Any
) -> None:
    await store.open()
    admin.flushall()

    await store.enqueue([new()])

    assert (await store.schema()).current
