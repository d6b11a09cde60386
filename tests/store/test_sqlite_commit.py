"""One writer, group commit: concurrent calls share a transaction, each returns after its commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from taskyard.domain.clock import micros
from taskyard.domain.errors import IllegalTransition, NotFound, StaleAttempt, StoreBusy
from taskyard.domain.node import Hold
from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.state import State
from taskyard.domain.task import Enqueued, TaskQuery
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.sqlite.thread import MAX_GROUP
from taskyard.store.sqlite.tx import AnotherWay, Tx
from tests.conformance.verbs import complete, enqueued, new, node, seen, succeeded


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "yard.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path, busy_seconds=0.05)
    await opened.open()
    yield opened
    await opened.close()


class Commits:
    """Counts what a store commits."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        db = store._writer._db
        assert db is not None
        db.set_commit_hook(self._committed)

    def _committed(self) -> bool:
        self.count += 1
        return False


@asynccontextmanager
async def held_up(store: SqliteStore) -> AsyncIterator[None]:
    """Calls made inside wait together, as behind a slow commit."""
    busy, gate = threading.Event(), threading.Event()

    def wait(_: Tx) -> None:
        busy.set()
        gate.wait()

    waiting = asyncio.ensure_future(store._writer.run(wait))
    await asyncio.to_thread(busy.wait)
    try:
        yield
    finally:
        gate.set()
        await waiting


@pytest.mark.spec("engine-28")
async def test_concurrent_calls_share_a_transaction(store: SqliteStore) -> None:
    async with held_up(store):
        calls = [asyncio.ensure_future(store.enqueue([new()])) for _ in range(200)]
        await asyncio.sleep(0)  # one turn of the loop: every call is handed over
        commits = Commits(store)
    await asyncio.gather(*calls)

    assert commits.count <= 2  # the one that was held up, and one for all
    assert (await store.counts())[State.QUEUED] == 200


@pytest.mark.spec("engine-28")
async def test_a_group_has_an_end(store: SqliteStore) -> None:
    async with held_up(store):
        calls = [asyncio.ensure_future(store.enqueue([new()])) for _ in range(MAX_GROUP + 1)]
        await asyncio.sleep(0)
        commits = Commits(store)
    await asyncio.gather(*calls)

    assert 2 <= commits.count <= 3
    assert (await store.counts())[State.QUEUED] == MAX_GROUP + 1


@pytest.mark.spec("engine-28")
async def test_a_call_that_fails_does_not_take_the_others_with_it(store: SqliteStore) -> None:
    good = [new() for _ in range(4)]
    async with held_up(store):
        calls = [
            asyncio.ensure_future(store.enqueue([good[0]])),
            asyncio.ensure_future(store.cancel("nobody", actor="ann")),
            asyncio.ensure_future(store.enqueue([good[1]])),
            asyncio.ensure_future(store.enqueue([new(lane="new")], by=Hold(1, 1))),
            asyncio.ensure_future(store.enqueue([good[2], good[3]])),
        ]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(answer) for answer in answers] == [list, NotFound, list, StaleAttempt, list]
    assert answers[4] == [Enqueued(good[2].id), Enqueued(good[3].id)]
    assert (await store.counts())[State.QUEUED] == 4


@pytest.mark.spec("engine-19", "engine-28")
@pytest.mark.parametrize("alone", [True, False])
async def test_what_was_ended_the_short_way_is_undone_where_one_was_stale(
    store: SqliteStore, alone: bool
) -> None:
    worker = await node(store)
    await store.enqueue([new() for _ in range(3)])
    tasks = await worker.claim(3)
    await complete(store, tasks[1])

    verdicts = [succeeded(task, '"done"') for task in tasks]
    if alone:
        answers = await store.finish(verdicts)
    else:
        async with held_up(store):
            before = asyncio.ensure_future(store.enqueue([new(lane="before")]))
            ends = asyncio.ensure_future(store.finish(verdicts))
            after = asyncio.ensure_future(store.enqueue([new(lane="before")]))
            await asyncio.sleep(0)
        _, answers, _ = await asyncio.gather(before, ends, after)
        assert {task.lane for task in await store.find(TaskQuery(state=State.QUEUED))} == {"before"}

    assert answers == [
        Finished(tasks[0].no, State.COMPLETED),
        Stale(tasks[1].no, tasks[1].attempt),
        Finished(tasks[2].no, State.COMPLETED),
    ]
    kept = [await seen(store, task.id) for task in tasks]
    assert [(task.charged, task.result) for task in kept] == [
        (1, '"done"'),
        (1, None),
        (1, '"done"'),
    ]


@pytest.mark.spec("engine-21", "engine-28")
async def test_what_begins_anew_has_the_time_at_which_it_does(store: SqliteStore) -> None:
    """Another process may have written meanwhile, for as long as we wait for that."""
    times: list[int] = []

    def job(tx: Tx) -> None:
        times.append(tx.now)
        if len(times) == 1:
            store.clock.advance(5)
            raise AnotherWay

    await store._writer.run(job)

    assert times[1] - times[0] >= micros(5)


@pytest.mark.spec("engine-28")
async def test_what_a_failed_call_had_done_is_undone(store: SqliteStore) -> None:
    def half_done(tx: Tx) -> None:
        tx.run("UPDATE taskyard_meta SET value = 1 WHERE name = 'paused'")
        raise IllegalTransition("on purpose")

    worker = await node(store)
    async with held_up(store):
        first = asyncio.ensure_future(store.enqueue([new()]))
        broken = asyncio.ensure_future(store._writer.run(half_done))
        await asyncio.sleep(0)
    answers = await asyncio.gather(first, broken, return_exceptions=True)
    with pytest.raises(IllegalTransition):
        await store._writer.run(half_done)

    assert isinstance(answers[1], IllegalTransition)
    assert len(await worker.claim(1)) == 1  # the yard is not paused


@pytest.mark.spec("engine-28")
async def test_a_lane_named_by_a_failed_call_can_be_named_again(store: SqliteStore) -> None:
    worker = await node(store)
    with pytest.raises(StaleAttempt):
        await store.enqueue([new(lane="late")], by=Hold(1, 1))

    task_id = await enqueued(store, lane="late")

    assert await worker.claim_ids() == [task_id]


@pytest.mark.spec("engine-28")
async def test_a_caller_that_went_away_does_not_disturb_the_others(store: SqliteStore) -> None:
    gone, here = new(), new()
    async with held_up(store):
        first = asyncio.ensure_future(store.enqueue([gone]))
        second = asyncio.ensure_future(store.enqueue([here]))
        await asyncio.sleep(0)
        first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await second == [Enqueued(here.id)]


@pytest.mark.spec("engine-28")
async def test_a_file_locked_by_another_program_is_busy(store: SqliteStore, path: str) -> None:
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy, match="locked by another program"):
        await enqueued(store)
    assert (await store.counts())[State.QUEUED] == 0  # reading goes on

    other.execute("ROLLBACK")
    await enqueued(store)
    other.close()


@pytest.mark.spec("engine-28", "engine-20")
async def test_a_beat_that_gets_no_answer_in_time_says_so(store: SqliteStore) -> None:
    worker = await node(store)
    async with held_up(store):
        with pytest.raises(StoreBusy, match="did not answer"):
            store.beat(worker.lease, timeout=0.01)

    assert not worker.beat().lost


@pytest.mark.spec("engine-28")
async def test_closing_finishes_what_was_accepted(store: SqliteStore, path: str) -> None:
    tasks = [new() for _ in range(20)]
    async with held_up(store):
        calls = [asyncio.ensure_future(store.enqueue([task])) for task in tasks]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
    await asyncio.gather(*calls, closing)

    again = SqliteStore(path)
    assert (await again.counts())[State.QUEUED] == 20
    await again.close()
