"""Floors: claims begin where the last ones stopped, and yet nothing stays hidden below them.

`TIME_PASSES` makes every floor as old as if seconds had gone by, so that nothing here waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import msgspec
import pytest

from taskyard.domain.lane import LaneChange
from taskyard.domain.task import Enqueued
from taskyard.store.port import Store
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.postgres.turn import TURN
from tests.conformance.places import PostgresSchema
from tests.conformance.verbs import (
    Worker,
    complete,
    enqueued,
    failed,
    finish,
    new,
    node,
    released,
    running,
)
from tests.servers.postgres import shared_url

MANY = 120  # enough in one claim for a floor to be raised
TIME_PASSES = "UPDATE taskyard.floors SET raised_at = raised_at - 5000000, looked_at = 0"
FLOOR = "SELECT max(safe) FROM taskyard.floors"
FLOORS = "SELECT priority, max(safe) AS safe FROM taskyard.floors GROUP BY priority ORDER BY 1"

pytestmark = pytest.mark.spec("engine-12", "engine-29")


class Place(msgspec.Struct, frozen=True):
    """A yard, and a look behind it."""

    schema: PostgresSchema
    store: PostgresStore
    behind: asyncpg.Connection[asyncpg.Record]

    @property
    def namespace(self) -> str:
        return self.schema.url.partition("namespace=")[2]

    def here(self, statement: str) -> str:
        return in_namespace(statement, self.namespace)

    async def floor(self) -> int:
        return int(await self.behind.fetchval(self.here(FLOOR)) or 0)

    async def churn(self, worker: Worker, rounds: int = 3) -> None:
        """Run many tasks; afterwards the floor is above all that came before."""
        for _ in range(rounds):
            await self.store.enqueue([new() for _ in range(MANY)])
            tasks = await worker.claim(MANY)
            assert len(tasks) == MANY
            await complete(self.store, *tasks)
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


async def worker_of(store: Store) -> Worker:
    return await node(store, slots=1000)


async def number_of(place: Place, task_id: str) -> int:
    found = await place.store.get(task_id)
    assert found is not None
    return found.seq


async def test_a_claim_begins_above_what_was_done(place: Place) -> None:
    worker = await worker_of(place.store)
    first = await enqueued(place.store)
    place_of_first = await number_of(place, first)
    await complete(place.store, await worker.claim_one())

    await place.churn(worker)

    assert await place.floor() > place_of_first + MANY


Return = Callable[[Place, Worker], Awaitable[str]]


async def _released(place: Place, worker: Worker) -> str:
    task = await running(place.store, worker)
    await place.churn(worker)
    await finish(place.store, released(task))
    return task.id


async def _rescued(place: Place, worker: Worker) -> str:
    other = await node(place.store, "node-b", slots=1)
    task = await running(place.store, other)
    await place.churn(worker)
    await place.store.rescue([other.lease], ended=False)
    return task.id


async def _promoted(place: Place, worker: Worker) -> str:
    task_id = await enqueued(place.store, delay=5.0)
    await place.churn(worker)
    await place.schema.advance(6)
    worker.beat()
    await place.store.promote()
    return task_id


async def _moved_up(place: Place, worker: Worker) -> str:
    await place.store.set_lane("default", LaneChange(paused=True), actor="ann")
    task_id = await enqueued(place.store, priority=10)
    await place.store.set_lane("default", LaneChange(paused=False), actor="ann")
    other = await node(place.store, "node-b", slots=MANY)
    for _ in range(3):
        await place.store.enqueue([new() for _ in range(MANY)])
        tasks = await other.claim(MANY)
        assert task_id not in {task.id for task in tasks}
        await complete(place.store, *tasks)
        await place.behind.execute(place.here(TIME_PASSES))
    await place.store.prioritize(task_id, 5, actor="ann")
    return task_id


async def _woken(place: Place, worker: Worker) -> str:
    holder = await running(place.store, worker, keys=("k",))
    task_id = await enqueued(place.store, keys=("k",))
    await place.churn(worker)
    await complete(place.store, holder)
    return task_id


async def _committed_late(place: Place, worker: Worker) -> str:
    caller = await asyncpg.connect(shared_url())
    transaction = caller.transaction()
    await transaction.start()
    await place.store.enqueue([new()])  # the lane and the kind are known before it begins
    await complete(place.store, await worker.claim_one())
    [made] = await place.store.enqueue_in(caller, [new()])
    assert isinstance(made, Enqueued)
    await place.churn(worker)
    assert await place.floor() > 0
    await transaction.commit()
    await caller.close()
    return made.id


RETURNS: dict[str, Return] = {
    "released": _released,
    "rescued": _rescued,
    "promoted": _promoted,
    "moved up": _moved_up,
    "woken": _woken,
}


@pytest.mark.parametrize("how", RETURNS)
async def test_what_becomes_ready_below_a_floor_comes_first(place: Place, how: str) -> None:
    worker = await worker_of(place.store)
    task_id = await RETURNS[how](place, worker)
    assert await number_of(place, task_id) < await _highest_floor_ever(place)
    behind = await enqueued(place.store)

    assert await worker.claim_ids(2) == [task_id, behind]


async def _highest_floor_ever(place: Place) -> int:
    """What `churn` raised the floor to: it ended above everything it ran."""
    statement = "SELECT max(greatest(safe, seen)) FROM taskyard.floors"
    lowered = int(await place.behind.fetchval(place.here(statement)) or 0)
    ended = int(await place.behind.fetchval(place.here("SELECT max(no) FROM taskyard.done")))
    assert lowered > 0
    return max(lowered, ended)


async def test_a_task_that_committed_late_is_found(place: Place) -> None:
    worker = await worker_of(place.store)
    late = await _committed_late(place, worker)
    behind = await enqueued(place.store)

    assert set(await worker.claim_ids(5)) == {late, behind}


async def test_a_task_that_committed_late_is_found_beside_a_backlog_too(place: Place) -> None:
    worker = await worker_of(place.store)
    late = await _committed_late(place, worker)
    await place.store.enqueue([new() for _ in range(4 * MANY)])
    await place.behind.execute(place.here(TIME_PASSES))

    first = await worker.claim_ids(MANY)  # this one looks below the floor as it goes
    second = await worker.claim_ids(1)

    assert late not in first
    assert second == [late]


async def test_a_retried_task_goes_behind_and_is_found(place: Place) -> None:
    worker = await worker_of(place.store)
    task = await running(place.store, worker)
    await place.churn(worker)
    await finish(place.store, failed(task))

    assert await worker.claim_ids(1) == [task.id]


async def test_the_floor_of_a_queue_that_is_empty_now_rises_with_those_beside_it(
    place: Place,
) -> None:
    worker = await node(place.store, slots=1000)
    await place.churn(worker, rounds=2)
    before = await place.floor()
    for _ in range(3):
        await place.store.enqueue([new(priority=1) for _ in range(MANY)])
        await complete(place.store, *await worker.claim(MANY))
        await place.behind.execute(place.here(TIME_PASSES))

    floors = await place.behind.fetch(place.here(FLOORS))

    assert [row["priority"] for row in floors] == [1, 5]
    assert all(row["safe"] > before + MANY for row in floors)


async def test_a_floor_that_saves_nothing_is_dropped(place: Place) -> None:
    worker = await worker_of(place.store)
    await place.churn(worker)
    assert await place.floor() > 0
    await place.behind.execute(place.here("VACUUM taskyard.ready"))
    await place.behind.execute(place.here(TIME_PASSES))

    assert await worker.claim(5) == []

    assert await place.floor() == 0


async def test_a_held_snapshot_makes_no_claim_read_more(place: Place) -> None:
    """In pages, not in seconds."""
    worker = await worker_of(place.store)
    await place.store.enqueue([new() for _ in range(40 * MANY)])
    holder = await asyncpg.connect(shared_url())
    async with holder.transaction(isolation="repeatable_read", readonly=True):
        await holder.fetchval(place.here("SELECT count(*) FROM taskyard.ready"))
        pages: list[int] = []
        for _ in range(36):
            pages.append(await _pages_of_a_claim(place, worker))
            await complete(place.store, *(await worker.ask_again(MANY)).tasks)
            await place.behind.execute(place.here(TIME_PASSES))
    await holder.close()

    early, late = sum(pages[3:9]), sum(pages[-6:])
    assert late < 1.5 * early, pages


async def _pages_of_a_claim(place: Place, worker: Worker) -> int:
    worker.number += 1
    nothing: tuple[object, ...] = ([], [], [], [], None, [], [])
    args = (place.store.clock.reading(), *nothing, worker.lease, worker.number, MANY, 0)
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + place.here(TURN)
    [found] = msgspec.json.decode(await place.behind.fetchval(explain, *args))
    plan = found["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
