"""What PostgreSQL keeps beside the tasks: how much each node runs, and which queues there are.

Both are shared by all who claim, so the tests are of several at the same time: whoever keeps a
transaction open must keep nobody waiting, and however attempts end, the ledger says what runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import asyncpg
import msgspec
import pytest

from taskyard.domain.moved import Moved
from taskyard.domain.outcome import Finished, Verdict
from taskyard.domain.task import Claimed, Enqueued, TaskQuery
from taskyard.store.port import ClaimRequest
from taskyard.store.postgres import copy
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.postgres.turn import TURN, turn_args
from tests.conformance.places import PostgresSchema
from tests.conformance.verbs import (
    Worker,
    bare,
    capacity,
    complete,
    enqueued,
    failed,
    finish,
    hold,
    new,
    node,
    released,
    seen,
    succeeded,
)
from tests.servers.postgres import shared_url

HANGS = 30.0  # seconds: whoever waits for another's transaction would wait for ever
MANY = 120  # enough in one claim for a floor to be raised
TIME_PASSES = """UPDATE taskyard.floors SET raised_at = raised_at - 5000000, looked_at = 0;
UPDATE taskyard.looks SET at = at - 5000000"""
COUNTED = """SELECT n.id, l.running AS said,
       (SELECT count(*) FROM taskyard.running AS r
         WHERE r.lease = n.lease AND r.started_at IS NOT NULL) AS runs
  FROM taskyard.nodes AS n JOIN taskyard.loads AS l USING (lease)"""

pytestmark = pytest.mark.spec("engine-12", "engine-29")


class Place(msgspec.Struct, frozen=True):
    """A yard, and a look behind it."""

    schema: PostgresSchema
    store: PostgresStore
    behind: asyncpg.Connection[asyncpg.Record]

    def here(self, statement: str) -> str:
        return in_namespace(statement, self.schema.url.partition("namespace=")[2])

    async def ledger(self) -> dict[str, int]:
        """What runs on each node; the ledger must say the same, in one line a node."""
        found = await self.behind.fetch(self.here(COUNTED))
        assert len({row["id"] for row in found}) == len(found)
        assert [row["said"] for row in found] == [row["runs"] for row in found]
        return {row["id"]: row["runs"] for row in found}

    async def time_passes(self) -> None:
        await self.behind.execute(self.here(TIME_PASSES))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    schema = PostgresSchema(tmp_path)
    store = schema.view()
    assert isinstance(store, PostgresStore)
    await store.open()
    behind = await asyncpg.connect(shared_url())
    yield Place(schema, store, behind)
    await behind.close()
    await store.close()


@asynccontextmanager
async def caller(
    isolation: Literal["read_committed", "repeatable_read"] = "read_committed",
) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A transaction of somebody else, which is committed at the end."""
    connection = await asyncpg.connect(shared_url())
    async with connection.transaction(isolation=isolation):
        yield connection
    await connection.close()


# --- queues ---


async def test_a_queue_that_is_new_in_an_open_transaction_keeps_nobody_waiting(
    place: Place,
) -> None:
    waiting = await enqueued(place.store, priority=5)
    async with caller() as connection:
        [late] = await place.store.enqueue_in(connection, [new(priority=9)])
        async with asyncio.timeout(HANGS):
            early = await enqueued(place.store, priority=9)
            await place.store.prioritize(waiting, 9, actor="ann")
        worker = await node(place.store)
        assert await worker.claim_ids(3) == [waiting, early]

    assert isinstance(late, Enqueued)
    assert await worker.claim_ids(3) == [late.id]


async def test_two_open_transactions_may_make_the_same_queues_in_any_order(place: Place) -> None:
    await enqueued(place.store, priority=5)
    async with asyncio.timeout(HANGS), caller() as one, caller() as other:
        await place.store.enqueue_in(one, [new(priority=1)])
        await place.store.enqueue_in(other, [new(priority=2)])
        await place.store.enqueue_in(one, [new(priority=2)])
        await place.store.enqueue_in(other, [new(priority=1)])

    worker = await node(place.store)
    tasks = [await seen(place.store, task_id) for task_id in await worker.claim_ids(10)]
    assert [task.priority for task in tasks] == [1, 1, 2, 2, 5]


async def test_a_queue_may_have_come_after_the_snapshot_of_a_transaction(place: Place) -> None:
    await enqueued(place.store, priority=5)
    async with caller("repeatable_read") as connection:
        await connection.fetchval("SELECT 1")  # from here on it sees nothing new
        first = await enqueued(place.store, priority=1)
        [second] = await place.store.enqueue_in(connection, [new(priority=1)])

    assert isinstance(second, Enqueued)
    worker = await node(place.store)
    assert await worker.claim_ids(2) == [first, second.id]


# --- the ledger ---


async def test_the_ledger_says_what_runs_however_attempts_end(place: Place) -> None:
    worker, other = await node(place.store, slots=4), await node(place.store, "node-b", slots=4)
    await place.store.enqueue([new() for _ in range(20)])
    first = (await worker.ask(4, ahead=3)).tasks
    assert await place.ledger() == {"node-a": 4, "node-b": 0}
    assert (await worker.ask_again(4, ahead=3)).tasks == first
    assert await place.ledger() == {"node-a": 4, "node-b": 0}

    await place.store.mark_started([hold(task) for task in first[4:6]])
    await place.store.mark_started([hold(task) for task in first[4:6]])
    assert await place.ledger() == {"node-a": 6, "node-b": 0}

    ended = [succeeded(first[0]), failed(first[1]), released(first[6]), succeeded(first[0])]
    await finish(place.store, *ended)
    await finish(place.store, *ended)
    assert await place.ledger() == {"node-a": 4, "node-b": 0}

    await other.claim(4)
    await place.store.rescue([worker.lease], ended=False)
    assert await place.ledger() == {"node-b": 4}
    await place.store.retire(other.lease)
    assert await place.ledger() == {}


async def test_the_ledger_counts_all_who_end_attempts_at_once(place: Place) -> None:
    workers = [await node(place.store, f"node-{at}", slots=50) for at in range(3)]
    await place.store.enqueue([new() for _ in range(150)])
    tasks = [task for worker in workers for task in await worker.claim(40)]
    tasks.sort(key=lambda task: task.no % 7)
    sheaves = [tasks[at : at + 5] for at in range(0, len(tasks), 5)]

    async def ends(sheaf: list[Claimed], *, named: bool) -> None:
        told = sheaf if named else [bare(task) for task in sheaf]
        await finish(place.store, *(succeeded(task) for task in told[:3]), *map(failed, told[3:]))

    await asyncio.gather(*(ends(sheaf, named=at % 2 == 0) for at, sheaf in enumerate(sheaves)))

    assert await place.ledger() == {"node-0": 0, "node-1": 0, "node-2": 0}


async def test_who_does_not_say_the_lease_waits_for_the_ledger_all_the_same(place: Place) -> None:
    worker = await node(place.store)
    await place.store.enqueue([new(), new(), new()])
    one, other, third = await worker.claim(3)
    async with caller() as connection:
        args = turn_args(place.store.clock.reading(), [succeeded(bare(one))], None)
        await connection.fetchrow(place.here(TURN), *args)
        verdicts = succeeded(bare(other)), failed(bare(third))
        ending = asyncio.create_task(place.store.finish(verdicts))
        await _until_one_waits_for(place, connection.get_server_pid())

    answers = await ending
    assert all(isinstance(answer, Finished) for answer in answers)
    assert await place.ledger() == {"node-a": 0}


async def _until_one_waits_for(place: Place, pid: int) -> None:
    waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE $1 = ANY (pg_blocking_pids(pid)))"
    async with asyncio.timeout(HANGS):
        while True:
            if await place.behind.fetchval(waits, pid):
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("ended", [succeeded, partial(failed, retry=False)])
async def test_a_turn_takes_the_room_it_leaves_in_a_full_lane(
    place: Place, ended: Callable[[Claimed], Verdict]
) -> None:
    await capacity(place.store, "default", 1)
    worker = await node(place.store)
    first, second = await enqueued(place.store), await enqueued(place.store)
    task = await worker.claim_one()
    assert task.id == first

    worker.number += 1
    request = ClaimRequest(lease=worker.lease, number=worker.number, room=5)
    turn = await place.store.turn([ended(task)], request)

    assert [claimed.id for claimed in turn.claim.tasks] == [second]


# --- floors, seen from somewhere else ---


async def churn(place: Place, worker: Worker, **options: str) -> None:
    """Run many tasks of a lane; afterwards its floor is above all that came before."""
    for _ in range(3):
        await place.store.enqueue([new(**options) for _ in range(MANY)])
        await complete(place.store, *await worker.claim(MANY))
        await place.time_passes()


@pytest.mark.parametrize("lane", ["small", "default"])
async def test_what_hides_below_a_floor_is_found_although_the_node_is_always_full(
    place: Place, lane: str
) -> None:
    worker = await node(place.store, slots=1000)
    await complete(place.store, *[await _running(worker, lane="small")])
    async with caller() as connection:
        [late] = await place.store.enqueue_in(connection, [new(lane="small")])
        await churn(place, worker, lane="small")
    await place.store.enqueue([new(lane=lane) for _ in range(40)])

    found: list[str] = []
    for _ in range(4):
        await place.time_passes()
        tasks = (await worker.ask(4)).tasks
        assert len(tasks) == 4
        found += [task.id for task in tasks]
        await complete(place.store, *tasks)

    assert isinstance(late, Enqueued)
    assert late.id in found


async def _running(worker: Worker, **options: str) -> Claimed:
    await enqueued(worker.store, **options)
    return await worker.claim_one()


async def test_an_import_that_is_not_over_keeps_no_claim_waiting(place: Place) -> None:
    worker = await node(place.store, slots=1000)
    old = await enqueued(place.store)
    [task] = await place.store.find(TaskQuery(limit=1))
    await place.behind.execute(place.here("DELETE FROM taskyard.ready"))
    await place.behind.execute(place.here("DELETE FROM taskyard.tasks"))
    await churn(place, worker)
    await place.store.enqueue([new() for _ in range(3 * MANY)])

    async with caller() as connection, asyncio.timeout(HANGS):
        await _import(connection, place, Moved(task, None, False))
        await complete(place.store, *await worker.claim(MANY))
        await complete(place.store, *await worker.claim(MANY))

    assert await worker.claim_ids(1) == [old]


async def _import(
    connection: asyncpg.Connection[asyncpg.Record], place: Place, moved: Moved
) -> None:
    statement = place.here(copy.TASKS)
    await connection.execute(statement, *copy.task_args([moved]))


# --- how much a claim reads ---


async def test_a_claim_reads_as_much_more_as_there_are_more_lanes(place: Place) -> None:
    """In pages, not in seconds."""
    few, many = await _node(place, "few"), await _node(place, "many")
    for kind, lanes in (("few", 10), ("many", 40)):
        await place.store.enqueue(
            [new(kind, lane=f"{kind}-{at % lanes}") for at in range(lanes * 20)]
        )

    for_ten, for_forty = await _pages(place, few), await _pages(place, many)
    assert for_forty < 8 * for_ten, (for_ten, for_forty)


async def _node(place: Place, kind: str) -> Worker:
    return await node(place.store, kind, kinds=(kind,), slots=100)


async def _pages(place: Place, worker: Worker) -> int:
    """Of a claim that has room for three; the first of a session reads the catalog too."""
    return min([await _pages_of_one(place, worker) for _ in range(4)])


async def _pages_of_one(place: Place, worker: Worker) -> int:
    worker.number += 1
    nothing: tuple[object, ...] = ([], [], [], [], None, [], [])
    args = (place.store.clock.reading(), *nothing, worker.lease, worker.number, 3, 0)
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + place.here(TURN)
    [found] = msgspec.json.decode(await place.behind.fetchval(explain, *args))
    plan = found["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
