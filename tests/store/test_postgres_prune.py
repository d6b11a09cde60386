"""On PostgreSQL pruning waits for nobody, and nobody who claims waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from taskyard.domain.errors import NotFound
from taskyard.domain.node import NewNode
from taskyard.domain.retention import Retention
from taskyard.domain.state import State
from taskyard.domain.task import Enqueued, NewTask, new_task_id
from taskyard.store.port import ClaimRequest, Store
from taskyard.store.postgres.options import Options, read_options
from taskyard.store.postgres.queries import in_namespace
from taskyard.store.url import open_store
from tests.servers.postgres import shared_url

NOTHING = timedelta(0)
AT_ONCE = Retention(completed=NOTHING, failed=NOTHING, cancelled=NOTHING)
PRUNE = """SELECT * FROM taskyard.prune(
    0, 'cancelled', 0, 0, '{}', '{}', '{}', '{}', 0, 0, 10, false, 'ann', NULL, 0)"""
RETRY = "SELECT * FROM taskyard.retry(0, $1, 'ann')"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1"

PATIENCE = 30.0


class Raw:
    """A transaction that a test holds open."""

    def __init__(self, connection: Any, watcher: Any, options: Options) -> None:
        self.connection = connection
        self._watcher = watcher
        self.schema = in_namespace("taskyard.", options.namespace)
        self._namespace = options.namespace

    async def row(self, statement: str, *args: object) -> Any:
        return await self.connection.fetchrow(in_namespace(statement, self._namespace), *args)

    async def until_somebody_waits(self, verb: str) -> None:
        """For a row that this transaction has locked."""
        seen = 0
        async with asyncio.timeout(PATIENCE):
            while not seen:
                seen = await self._watcher.fetchval(WAITING, f"%{self.schema}{verb}(%")


@pytest.fixture
def url() -> str:
    return f"{shared_url()}?namespace=prune_{new_task_id()}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = open_store(url)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def raw(url: str, store: Store) -> AsyncIterator[Raw]:
    options = read_options(url)
    connection: Any = await asyncpg.connect(options.dsn)
    watcher: Any = await asyncpg.connect(options.dsn)
    yield Raw(connection, watcher, options)
    await connection.close()
    await watcher.close()


async def cancelled(store: Store, **options: Any) -> str:
    task = NewTask(kind="work", payload="{}", **options)
    await store.enqueue([task])
    await store.cancel(task.id, actor="ann")
    return task.id


async def prune_all(store: Store) -> int:
    removed, mark = 0, None
    while True:
        step = await store.prune(AT_ONCE, actor="ann", after=mark)
        removed, mark = removed + step.tasks, step.mark
        if mark is None:
            return removed


@pytest.mark.spec("lifecycle-15")
async def test_whoever_wants_to_retry_what_is_being_pruned_hears_that_it_is_gone(
    store: Store, raw: Raw
) -> None:
    task_id = await cancelled(store)
    async with raw.connection.transaction():
        assert (await raw.row(PRUNE))["o_count"] == 1
        retry = asyncio.create_task(store.retry(task_id, actor="ann"))
        await raw.until_somebody_waits("retry")
    with pytest.raises(NotFound):
        await retry
    assert set((await store.counts()).values()) == {0}


@pytest.mark.spec("lifecycle-15")
async def test_what_gets_a_new_life_at_this_moment_is_passed_over(store: Store, raw: Raw) -> None:
    revived, other = await cancelled(store), await cancelled(store)
    async with raw.connection.transaction():
        assert (await raw.row(RETRY, revived))["o_state"] == State.CANCELLED
        assert await prune_all(store) == 1
    assert await store.get(other) is None
    task = await store.get(revived)
    assert task is not None
    assert task.state is State.QUEUED


@pytest.mark.spec("lifecycle-15")
async def test_an_id_is_free_when_the_one_who_prunes_it_commits(store: Store, raw: Raw) -> None:
    task_id = await cancelled(store)
    async with raw.connection.transaction():
        await raw.row(PRUNE)
        again = asyncio.create_task(
            store.enqueue([NewTask(kind="work", payload='"again"', id=task_id)])
        )
        await raw.until_somebody_waits("enqueue_one")
    assert await again == [Enqueued(task_id)]
    task = await store.get(task_id)
    assert task is not None
    assert task.payload == '"again"'


@pytest.mark.spec("lifecycle-15")
async def test_a_step_that_takes_long_holds_up_no_claim_and_no_enqueue(
    store: Store, raw: Raw
) -> None:
    """Also of tasks with keys, which are claimed under the lock of the room."""
    lease = await store.register(NewNode(id="n", kinds=("work",), slots=10))
    await cancelled(store, keys=("k",))
    async with raw.connection.transaction():
        assert (await raw.row(PRUNE))["o_count"] == 1
        await store.enqueue([NewTask(kind="work", payload="{}", keys=("k",))])
        claim = await store.claim(ClaimRequest(lease=lease, number=1, room=10))
        assert len(claim.tasks) == 1


@pytest.mark.spec("lifecycle-15")
@pytest.mark.parametrize(
    ("state", "index"),
    [("completed", "done_well_at"), ("failed", "done_badly_at"), ("cancelled", "done_badly_at")],
)
async def test_old_tasks_are_found_through_an_index(raw: Raw, state: str, index: str) -> None:
    condition = (
        "d.state = 'completed'"
        if state == "completed"
        else f"d.state <> 'completed' AND d.state = '{state}'"
    )
    await raw.connection.execute("SET enable_seqscan = off")
    plan = await raw.connection.fetch(
        f"EXPLAIN SELECT d.no, d.ended_at FROM {raw.schema}done AS d WHERE {condition}"
        " AND d.ended_at <= 5 AND (d.ended_at, d.no) > (1, 2) ORDER BY d.ended_at, d.no LIMIT 500"
    )
    lines = [row[0] for row in plan]
    assert any(index in line for line in lines), lines
    assert not any("Sort" in line for line in lines), lines
