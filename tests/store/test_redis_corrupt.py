"""Something wrote into our keys what is no task: that task is lost, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec
import pytest
from redis import Redis

from taskyard import Yard
from taskyard.domain.clock import micros
from taskyard.domain.errors import StoreCorrupt
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.outcome import Stale
from taskyard.domain.state import Reason, State
from taskyard.domain.task import TaskQuery
from taskyard.store.port import ClaimRequest
from taskyard.store.redis.address import parse
from taskyard.store.redis.scripts import key_prefix
from taskyard.store.redis.store import RedisStore
from tests.conformance.verbs import complete, enqueued, finish, node, running, seen, succeeded
from tests.engine.waits import ended, working
from tests.engine.waits import running as is_running
from tests.servers.redis import RedisServer

PREFIX = key_prefix("taskyard")


def of_an_older_layout(parked_on: str | bool = False) -> bytes:
    """As a program of the release before writes it that goes on beside newer ones."""
    figures = ["queued", "created", 0, 0, 3, 0, f"{1:08x}{1:08x}", 5, f"{5:014x}{7:014x}", False]
    return msgspec.msgpack.encode([*figures, parked_on, 1_700_000_000_000_000, *[False] * 9])


GARBAGE = (
    *(b"\xc1", b"", b"\x07", b"\x95\xa1x"),  # no format, nothing, a number, a list cut off
    *(of_an_older_layout(), of_an_older_layout("running")),
)

Spoil = Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer("--appendonly", "no")
    made.start()
    yield made
    made.remove()


@pytest.fixture
def spoil(server: RedisServer) -> Iterator[Spoil]:
    """Writes something else over what is kept of a task."""
    with Redis(port=server.port) as admin:
        admin.flushall()

        def spoil(kept: str, task_id: str, garbage: bytes = GARBAGE[0]) -> None:
            no = admin.hget(f"{PREFIX}ids", task_id)
            assert isinstance(no, bytes)
            admin.hset(f"{PREFIX}{kept}", no.decode(), garbage)

        yield spoil


@pytest.fixture
async def store(server: RedisServer, spoil: Spoil) -> AsyncIterator[RedisStore]:
    store = RedisStore(parse(server.url))
    await store.open()
    yield store
    await store.close()


async def told(store: RedisStore) -> list[str]:
    """The tasks the audit trail calls unreadable."""
    return [line.subject for line in await store.audit() if line.action == "unreadable"]


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_definition_that_cannot_be_read_fails_its_task(
    store: RedisStore, spoil: Spoil, garbage: bytes
) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    spoil("tasks", bad, garbage)
    worker = await node(store, slots=5)

    claim = await worker.ask(5)
    assert [task.id for task in claim.tasks] == [good]
    assert claim.more
    [ending] = await store.endings([bad])
    assert ending.state is State.FAILED
    assert ending.error is not None
    assert "cannot be read" in ending.error.message
    assert await worker.holds() == {task.hold for task in claim.tasks}


@pytest.mark.spec("reliability-16")
async def test_a_turn_and_a_claim_ahead_go_on_beside_it(store: RedisStore, spoil: Spoil) -> None:
    worker = await node(store)
    task = await running(store, worker)
    bad, good, ahead = [await enqueued(store) for _ in range(3)]
    spoil("tasks", bad)

    verdict = succeeded(task)
    request = ClaimRequest(lease=worker.lease, number=50, room=1, ahead=2)
    turn = await store.turn([verdict], request)

    assert [claimed.id for claimed in turn.claim.tasks] == [good, ahead]
    assert (await store.counts())[State.FAILED] == 1


@pytest.mark.spec("reliability-16")
async def test_a_worker_goes_on_beside_what_it_cannot_read(
    server: RedisServer, store: RedisStore, spoil: Spoil
) -> None:
    async with Yard(server.url) as yard:

        @yard.task(name="work")
        async def work() -> str:
            return "done"

        bad, first = await enqueued(store), await work.enqueue()
        worse = await enqueued(store)
        spoil("tasks", bad)
        spoil("lives", worse)
        async with working(yard):
            assert (await ended(first)).state is State.COMPLETED
            assert (await ended(await work.enqueue())).state is State.COMPLETED


@pytest.mark.spec("reliability-16", "engine-18")
async def test_what_has_ended_is_written_though_nothing_can_be_claimed(
    server: RedisServer, store: RedisStore
) -> None:
    """Verdicts and claims share a step; a claim that fails each time holds no verdict back."""
    gate = asyncio.Event()
    async with Yard(server.url) as yard:

        @yard.task(name="work")
        async def work() -> str:
            await gate.wait()
            return "done"

        async with working(yard):
            first, second = await work.enqueue(), await work.enqueue()
            await is_running(first)
            await is_running(second)
            await enqueued(store, "other", lane="spoilt")
            with Redis(port=server.port) as admin:
                lane = admin.hget(f"{PREFIX}lane_names", "spoilt")
                admin.hset(f"{PREFIX}lanes", lane, GARBAGE[0])
            gate.set()
            assert (await ended(first)).state is State.COMPLETED
            assert (await ended(second)).state is State.COMPLETED


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_state_that_cannot_be_read_leaves_the_queue(
    store: RedisStore, spoil: Spoil, garbage: bytes
) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    spoil("lives", bad, garbage)
    worker = await node(store)

    assert await worker.claim_ids(1) == [good]
    assert await told(store) == [f"task:{bad}"]
    assert await worker.claim_ids(1) == []
    assert await told(store) == [f"task:{bad}"]


@pytest.mark.spec("reliability-16")
async def test_it_leaves_those_who_wait_for_a_key(store: RedisStore, spoil: Spoil) -> None:
    worker = await node(store, slots=2)
    task = await running(store, worker, keys=("k",))
    bad, good = await enqueued(store, keys=("k",)), await enqueued(store, keys=("k",))
    spoil("lives", bad)

    await complete(store, task)
    assert await worker.claim_ids(2) == [good]
    assert await told(store) == [f"task:{bad}"]


@pytest.mark.spec("reliability-16")
async def test_it_leaves_those_who_wait_for_their_time(store: RedisStore, spoil: Spoil) -> None:
    deadline = await store.now() + micros(5)
    bad = await enqueued(store, delay=1.0, deadline=deadline)
    good = await enqueued(store, delay=1.0)
    spoil("lives", bad)
    store.clock.advance(10)

    assert (await store.promote()).count == 1
    assert await store.expire() == 0
    assert (await seen(store, good)).state is State.QUEUED
    assert await told(store) == [f"task:{bad}"] * 2


@pytest.mark.spec("reliability-16")
async def test_it_leaves_the_turns_of_a_fair_lane(store: RedisStore, spoil: Spoil) -> None:
    await store.set_lane("fair", LaneChange(order=Order.FAIR), actor="ann")
    bad, first, nameless, second = [
        await enqueued(store, lane="fair", group="g", delay=delay) for delay in (None, 1, 1, None)
    ]
    spoil("lives", bad)
    spoil("tasks", nameless)
    store.clock.advance(5)
    await store.promote()
    worker = await node(store, slots=4)

    assert set(await worker.claim_ids(4)) == {first, second}
    assert (await store.counts())[State.FAILED] == 1


@pytest.mark.spec("reliability-16")
async def test_it_is_not_waited_upon(store: RedisStore, spoil: Spoil) -> None:
    worker = await node(store)
    first = await running(store, worker)
    bad = await enqueued(store, depends_on=(first.id,))
    good = await enqueued(store, depends_on=(first.id,))
    spoil("lives", bad)

    await complete(store, first)
    assert await worker.claim_ids(1) == [good]
    assert await told(store) == [f"task:{bad}"]


@pytest.mark.spec("reliability-16", "engine-20")
async def test_it_holds_no_lease_and_no_rescue_up(store: RedisStore, spoil: Spoil) -> None:
    worker = await node(store, slots=3)
    bad, good, nameless = [await running(store, worker) for _ in range(3)]
    spoil("lives", bad.id)
    spoil("tasks", nameless.id)

    assert not worker.beat().lost
    assert await worker.holds() == {good.hold, nameless.hold}
    store.clock.advance(100)
    [rescued] = await store.rescue()
    assert {verdict.id for verdict in rescued.verdicts} == {good.id, f"#{nameless.no}"}
    assert (await seen(store, good.id)).reason is Reason.RESCUED
    assert await told(store) == [f"task:{bad.id}"]
    assert await store.nodes() == []


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize("kept", ["tasks", "lives", "failures", "progress"])
@pytest.mark.parametrize("garbage", GARBAGE[:1] + GARBAGE[3:])
async def test_whoever_asks_for_it_is_told(
    store: RedisStore, spoil: Spoil, kept: str, garbage: bytes
) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    spoil(kept, bad, garbage)

    with pytest.raises(StoreCorrupt, match="cannot be read"):
        await store.get(bad)
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        await store.find(TaskQuery())
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        await store.export()
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        await store.explain(bad)
    assert (await seen(store, good)).id == good
    assert await store.endings([bad, good]) == []


@pytest.mark.spec("reliability-16")
async def test_an_operator_who_wants_to_change_it_is_told(store: RedisStore, spoil: Spoil) -> None:
    bad = await enqueued(store)
    spoil("lives", bad)

    with pytest.raises(StoreCorrupt, match=bad):
        await store.cancel(bad, actor="ann")
    with pytest.raises(StoreCorrupt, match=bad):
        await store.retry(bad, actor="ann")
    with pytest.raises(StoreCorrupt, match=bad):
        await store.prioritize(bad, 1, actor="ann")


@pytest.mark.spec("reliability-16")
async def test_a_late_verdict_about_it_is_stale(store: RedisStore, spoil: Spoil) -> None:
    worker = await node(store)
    task = await running(store, worker)
    spoil("lives", task.id)

    assert await finish(store, succeeded(task)) == [Stale(task.no, task.attempt)]
