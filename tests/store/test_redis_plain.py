"""Plain tasks take a shorter way through the scripts, to the same end as by the longer one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from redis import Redis

from taskyard.domain.lane import LaneChange
from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.rate import Rate
from taskyard.domain.state import State
from taskyard.domain.task import Claimed, Task, TaskQuery
from taskyard.store.port import ClaimRequest
from taskyard.store.redis import enqueue
from taskyard.store.redis.address import parse
from taskyard.store.redis.scripts import SCHEMA, all_keys, key_prefix
from taskyard.store.redis.store import RedisStore
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    finish,
    ids,
    new,
    node,
    parked,
    released,
    seen,
    succeeded,
)
from tests.servers.redis import RedisServer

PREFIX = key_prefix("taskyard")
PLAIN, NOT_PLAIN = 4, enqueue.SMALL  # max_charged: a task with so many retries is not plain


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer("--appendonly", "no")
    made.start()
    yield made
    made.remove()


@pytest.fixture
def admin(server: RedisServer) -> Iterator[Any]:
    with Redis(port=server.port) as admin:
        admin.flushall()
        yield admin


@pytest.fixture
async def store(server: RedisServer, admin: Any) -> AsyncIterator[RedisStore]:
    store = RedisStore(parse(server.url))
    await store.open()
    yield store
    await store.close()


def content(admin: Any) -> dict[str, Any]:
    """Everything that is stored, with its members or fields."""
    found: dict[str, Any] = {}
    for name, kind in all_keys().items():
        key = PREFIX + name
        match kind:
            case "HASH":
                found[name] = admin.hgetall(key)
            case "ZSET":
                found[name] = admin.zrange(key, 0, -1, withscores=True)
            case _:
                found[name] = admin.xrange(key)
    return found


Steps = Callable[[RedisStore, int], Awaitable[None]]


async def are_saved(store: RedisStore, max_charged: int) -> None:
    await store.enqueue(
        [new(id=f"{n}", priority=1 + n % 3, group="g", max_charged=max_charged) for n in range(20)]
    )


async def are_saved_one_by_one(store: RedisStore, max_charged: int) -> None:
    await are_saved(store, max_charged)  # its lane and its route are known then
    trace = f"00-{7:032x}-{7:016x}-01"
    for n in range(8):  # by the second of each two its route is known
        needs = ("b", "a")[: n // 2]
        task = new(id=f"one {n}", priority=1 + n, group="g", requires=needs)
        traced = trace if n % 4 == 1 else None
        await store.enqueue([replace(task, max_charged=max_charged, trace=traced)])


async def are_traced(store: RedisStore, max_charged: int) -> None:
    await are_saved(store, max_charged)  # its lane and its route are known then
    traces = [f"00-{n:032x}-{n:016x}-01" if n % 2 else None for n in range(20)]
    tasks = [
        new(id=f"traced {n}", trace=one, max_charged=max_charged) for n, one in enumerate(traces)
    ]
    assert (enqueue.plain(tasks) is not None) == (max_charged == PLAIN)
    await store.enqueue(tasks)
    worker = await node(store, slots=40)
    claimed = {task.id: task.origin and task.origin.trace for task in await worker.claim(40)}
    assert [claimed[task.id] for task in tasks] == traces


async def are_claimed(store: RedisStore, max_charged: int) -> None:
    await are_saved(store, max_charged)
    worker = await node(store)
    await store.claim(ClaimRequest(lease=worker.lease, number=1, room=8, ahead=4))


async def hold_keys(store: RedisStore, max_charged: int) -> None:
    """One key each, and some wait for it."""
    await store.enqueue(
        [new(id=f"{n}", keys=(f"k{n % 3}",), max_charged=max_charged) for n in range(8)]
    )
    worker = await node(store)
    await complete(store, *await worker.claim(2))
    await worker.claim(10)
    await store.enqueue(
        [new(id=f"late {n}", keys=(f"k{n}",), max_charged=max_charged) for n in range(5)]
    )
    parked = [task.id for task in await store.find(TaskQuery(limit=100)) if task.parked_on]
    assert {"late 0", "late 1", "late 2"} <= set(parked)
    assert (await store.endings(["0", "1"]))[0].state is State.COMPLETED


async def are_completed(store: RedisStore, max_charged: int) -> None:
    await are_saved(store, max_charged)
    worker = await node(store, slots=20)
    first, *others = await worker.claim(12)
    verdicts = [succeeded(task, '"done"') for task in others[:6]]
    stale = replace(succeeded(first), attempt=7)
    again = [released(others[6]), failed(others[7], retry=False), succeeded(others[0])]
    request = ClaimRequest(lease=worker.lease, number=9, room=5)
    turn = await store.turn([*verdicts, stale, *again], request)
    assert turn.finished == [
        *(Finished(task.no, State.COMPLETED) for task in others[:6]),
        Stale(first.no, 7),
        Finished(others[6].no, State.QUEUED),
        Finished(others[7].no, State.FAILED),
        Stale(others[0].no, 1),
    ]


async def are_limited(store: RedisStore, max_charged: int) -> None:
    """By a capacity in one lane and a rate in another."""
    await store.set_lane("narrow", LaneChange(capacity=3), actor="ann")
    await store.set_lane("slow", LaneChange(rate=Rate(2, 60.0, 2)), actor="ann")
    for lane in ("narrow", "slow"):
        await store.enqueue(
            [new(id=f"{lane} {n}", lane=lane, max_charged=max_charged) for n in range(8)]
        )
    worker = await node(store)
    tasks = await worker.claim(10)
    assert sorted(ids(tasks)) == ["narrow 0", "narrow 1", "narrow 2", "slow 0", "slow 1"]
    await complete(store, *tasks[:2])
    await worker.claim(10)


async def carry_keys(store: RedisStore, max_charged: int) -> None:
    """Some of them, and each finds room, also those who share a key; what is ahead carries none."""
    await store.set_key_rule("wide:*", 2, actor="ann")
    keys = [(f"own {n}",) if n % 3 else (f"wide:{n % 4}",) if n % 2 else () for n in range(24)]
    await store.enqueue(
        [new(id=f"{n}", keys=names, max_charged=max_charged) for n, names in enumerate(keys)]
    )
    worker = await node(store, slots=22)
    first = await store.claim(ClaimRequest(lease=worker.lease, number=1, room=22))
    assert len(first.tasks) == 22
    await store.enqueue([new(id=f"later {n}", max_charged=max_charged) for n in range(3)])
    second = await store.claim(ClaimRequest(lease=worker.lease, number=2, room=0, ahead=5))
    assert len(second.ahead) == len(second.tasks) == 3
    await complete(store, *first.tasks[:9], second.tasks[0])


async def come_back(store: RedisStore, max_charged: int) -> None:
    """And are claimed again in the step that ended their attempts."""
    await are_saved(store, max_charged)
    worker = await node(store, slots=30)
    one, two, three, *_ = await worker.claim(7)  # all of the first priority
    request = ClaimRequest(lease=worker.lease, number=9, room=8, ahead=2)
    turn = await store.turn([released(one), succeeded(two), failed(three)], request)
    again = {task.id: (task.attempt, task.charged) for task in turn.claim.tasks[:2]}
    assert again == {one.id: (2, 0), three.id: (2, 1)}
    assert len(turn.claim.tasks) == 10


def comparable(task: Task) -> dict[str, Any]:
    """But for the numbers and times that no two runs share."""
    found = asdict(task)
    for name in ("no", "seq", "created_at", "run_at", "max_charged", "failures"):
        del found[name]
    for name in ("started_at", "ended_at"):
        found[name] = found[name] is not None
    return found


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize(
    "steps",
    [
        *(
            are_saved,
            are_saved_one_by_one,
            are_traced,
            are_claimed,
            hold_keys,
            are_completed,
            are_limited,
        ),
        *(carry_keys, come_back),
    ],
    ids=lambda f: f.__name__,
)
async def test_both_ways_lead_to_the_same(store: RedisStore, admin: Any, steps: Steps) -> None:
    ends: list[tuple[Any, ...]] = []
    for max_charged in (PLAIN, NOT_PLAIN):
        admin.flushall()
        await store._link.write("open", SCHEMA)
        await steps(store, max_charged)
        tasks = await store.find(TaskQuery(limit=100))
        sizes = {name: len(members) for name, members in content(admin).items()}
        ends.append(([comparable(task) for task in tasks], sizes, await store.lanes()))

    assert ends[0] == ends[1]


@pytest.mark.spec("engine-30")
async def test_a_plain_task_that_ended_differs_in_its_life_alone(
    store: RedisStore, admin: Any
) -> None:
    """What the short way packs is what the long one would pack."""
    await are_completed(store, PLAIN)
    before = content(admin)
    [task] = await store.find(TaskQuery(state=State.COMPLETED, limit=1))
    no = f"{task.no:014x}".encode()
    assert before["lives"][no][3] == 36  # it is plain: nothing of it but its sort is told

    rewritten = """
    local life = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1]))
    return cmsgpack.pack(life)
    """
    assert admin.eval(rewritten, 1, f"{PREFIX}lives", no) == before["lives"][no]


@pytest.mark.spec("engine-30")
async def test_plain_tasks_with_the_same_history_have_the_same_life(
    store: RedisStore, admin: Any
) -> None:
    """Whenever they were enqueued; so a script reads and makes it once for all of them."""

    def lives() -> int:
        return len(set(admin.hvals(f"{PREFIX}lives")))

    for _ in range(2):
        await store.enqueue([new() for _ in range(10)])
    assert lives() == 1
    worker = await node(store, slots=20)
    tasks = await worker.claim(20)
    assert lives() == 1
    await complete(store, *tasks)
    assert lives() == 1

    whole = await store.find(TaskQuery(limit=100))
    assert all(task.seq == task.no and task.run_at == task.created_at for task in whole)


@pytest.mark.spec("engine-19", "engine-30")
async def test_of_two_verdicts_on_a_plain_task_the_first_counts(
    store: RedisStore, admin: Any
) -> None:
    worker = await node(store)
    await store.enqueue([new(), new()])
    one, two = await worker.claim(2)

    answers = await store.finish([succeeded(one, '"a"'), succeeded(two), succeeded(one, '"b"')])

    assert answers == [
        Finished(one.no, State.COMPLETED),
        Finished(two.no, State.COMPLETED),
        Stale(one.no, one.attempt),
    ]
    assert (await seen(store, one.id)).result == '"a"'
    assert admin.zcard(f"{PREFIX}runs") == admin.zcard(f"{PREFIX}running") == 0


@pytest.mark.spec("engine-13")
async def test_a_request_that_is_repeated_brings_plain_tasks_again(store: RedisStore) -> None:
    worker = await node(store)
    await store.enqueue([new() for _ in range(4)])
    request = ClaimRequest(lease=worker.lease, number=1, room=3, ahead=1)

    first, second = await store.claim(request), await store.claim(request)

    def without_wait(tasks: list[Claimed]) -> list[Claimed]:
        return [replace(task, waited=0.0) for task in tasks]

    assert without_wait(second.tasks) == without_wait(first.tasks)
    assert second.ahead == first.ahead


@pytest.mark.spec("engine-30")
async def test_tasks_leave_as_a_range_only_where_nobody_stands_between(
    store: RedisStore, admin: Any
) -> None:
    """Priorities mix the numbers of those who leave with those who stay."""
    await store.enqueue([new(id=f"{n}", priority=1 + n % 2) for n in range(40)])
    worker = await node(store, slots=40)
    odd = await worker.claim(20)
    assert ids(odd) == [f"{n}" for n in range(0, 40, 2)]
    await finish(store, *(succeeded(task) for task in odd[:10]))

    assert (await store.counts())[State.RUNNING] == 10
    assert admin.zcard(f"{PREFIX}runs") == 10
    left = await store.find(TaskQuery(state=State.QUEUED, limit=100))
    assert ids(left) == [f"{n}" for n in range(39, 0, -2)]
    assert len(await worker.claim(40)) == 20
    assert (await seen(store, odd[0].id)).state is State.COMPLETED


@pytest.mark.spec("engine-12", "engine-30")
async def test_a_claim_looks_at_some_of_very_many_lanes(store: RedisStore, admin: Any) -> None:
    """As many commands however many lanes with room there are; each comes to its turn."""
    worker = await node(store, slots=10_000)
    looks = []
    for lanes in (300, 1200):
        names = [f"lane {n}" for n in range(lanes)]
        await store.enqueue([new(lane=name) for name in names for _ in range(2)])
        await worker.claim(1)
        admin.config_resetstat()
        [task] = await worker.claim(1)
        looks.append(admin.info("commandstats")["cmdstat_zrangebylex"]["calls"])
        started = {task.lane}
        while tasks := await worker.claim(100):
            assert len({task.lane for task in tasks}) > 50
            started.update(task.lane for task in tasks)
        assert set(names) <= started
        assert (await store.counts())[State.QUEUED] == 0
    few, many = looks
    assert many <= few + 10


@pytest.mark.spec("engine-10", "engine-30")
@pytest.mark.parametrize("pattern", ["host:7", "host:*"])
async def test_a_rule_concerns_those_who_wait_for_the_keys_it_names(
    store: RedisStore, admin: Any, pattern: str
) -> None:
    """As many commands however many other keys somebody waits for."""
    worker = await node(store, slots=1000)
    steps = []
    for others in (20, 200):
        keys = ["host:7", "hosts", *(f"other {others} {n}" for n in range(others))]
        await store.enqueue([new(keys=(key,)) for key in keys for _ in range(3)])
        await worker.claim(1000)
        assert set((await parked(store)).values()) >= set(keys)
        admin.config_resetstat()
        await store.set_key_rule(pattern, 1000, actor="ann")
        steps.append(sum(of["calls"] for of in admin.info("commandstats").values()))
        left = await parked(store)
        assert "host:7" not in left.values()
        assert set(left.values()) >= set(keys) - {"host:7"}
        await store.set_key_rule(pattern, None, actor="ann")
    few, many = steps
    assert many <= few + 5


@pytest.mark.spec("engine-30")
async def test_a_task_goes_to_a_lane_that_became_special_and_back(store: RedisStore) -> None:
    await enqueued(store, lane="deep")
    await store.set_lane("deep", LaneChange(max_depth=2), actor="ann")
    await enqueued(store, lane="deep")
    [refused] = await store.enqueue([new(lane="deep")])
    assert type(refused).__name__ == "Refused"
    await store.set_lane("deep", LaneChange(max_depth=None), actor="ann")
    await enqueued(store, lane="deep")


@pytest.mark.spec("engine-18", "engine-30")
async def test_a_line_the_server_has_left_is_not_used_again(store: RedisStore, admin: Any) -> None:
    await enqueued(store)
    admin.client_kill_filter(_type="normal", skipme=True)
    assert await store.exists()  # by a line of its own: when it answers, the others have ended
    await enqueued(store)
    assert (await store.counts())[State.QUEUED] == 2
