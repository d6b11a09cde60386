"""What has been kept long enough goes, in small steps; nothing else does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from taskyard.domain.errors import NotFound
from taskyard.domain.lane import Audited
from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.retention import FOREVER, Keep, Retention
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Progress, TaskQuery, Until
from taskyard.store.port import Mark, PruneStep, Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    finish,
    new,
    node,
    refused_as_duplicate,
    running,
    seen,
    succeeded,
)

DAY = 86_400.0
USUAL = Retention()
AT_ONCE = Retention(
    completed=timedelta(0), failed=timedelta(0), cancelled=timedelta(0), audit=FOREVER
)


async def steps(
    store: Store, retention: Retention = USUAL, *, limit: int = 500, dry_run: bool = False
) -> list[PruneStep]:
    """A run to its end."""
    taken: list[PruneStep] = []
    mark: Mark | None = None
    while not taken or mark is not None:
        step = await store.prune(retention, actor="ann", after=mark, limit=limit, dry_run=dry_run)
        taken.append(step)
        mark = step.mark
    return taken


async def pruned(
    store: Store, retention: Retention = USUAL, *, limit: int = 500, dry_run: bool = False
) -> int:
    """How many tasks a run removes."""
    taken = await steps(store, retention, limit=limit, dry_run=dry_run)
    return sum(step.tasks for step in taken)


async def completed(store: Store, **options: Any) -> str:
    kind = str(options.pop("kind", "work"))
    worker = await node(store, f"for {kind}", kinds=(kind,))
    task_id = await enqueued(store, kind, **options)
    await complete(store, await worker.claim_one())
    await store.retire(worker.lease)
    return task_id


async def failing(store: Store, **options: Any) -> str:
    worker = await node(store)
    task_id = await enqueued(store, **options)
    await finish(store, failed(await worker.claim_one(), retry=False))
    await store.retire(worker.lease)
    return task_id


async def cancelled(store: Store, **options: Any) -> str:
    task_id = await enqueued(store, **options)
    await store.cancel(task_id, actor="ann")
    return task_id


async def left(store: Store) -> list[str]:
    return [task.id for task in reversed(await store.find(TaskQuery(limit=1000)))]


async def told(store: Store) -> list[tuple[str, str]]:
    """(actor, detail) of the lines about pruning, oldest first."""
    lines: list[Audited] = await store.audit(limit=1000)
    assert all(line.subject == "yard" for line in lines if line.action == "prune")
    return [(line.actor, line.detail) for line in reversed(lines) if line.action == "prune"]


@pytest.mark.spec("lifecycle-15", "engine-30")
async def test_each_state_is_kept_for_its_own_time(store: Store, time: StoreTime) -> None:
    done, broken, stopped = (
        await completed(store),
        await failing(store),
        await cancelled(store),
    )

    await time.advance(7 * DAY - 1)
    assert await pruned(store) == 0
    await time.advance(1)
    assert await pruned(store) == 1
    assert await left(store) == [broken, stopped]
    await time.advance(23 * DAY - 1)
    assert await pruned(store) == 0
    await time.advance(1)
    assert await pruned(store) == 2

    for task_id in (done, broken, stopped):
        assert await store.get(task_id) is None
    assert await left(store) == []
    assert set((await store.counts()).values()) == {0}


@pytest.mark.spec("lifecycle-15")
async def test_what_has_not_ended_stays_however_old(store: Store, time: StoreTime) -> None:
    worker = await node(store, slots=1)
    runs = await running(store, worker)
    waits = await enqueued(store)
    later = await enqueued(store, delay=1000 * DAY)
    await time.advance(999 * DAY)

    assert await pruned(store, AT_ONCE) == 0

    assert await left(store) == [runs.id, waits, later]
    await finish(store, succeeded(runs))
    assert await pruned(store, AT_ONCE) == 1


@pytest.mark.spec("lifecycle-15")
async def test_the_age_counts_from_the_end(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    slow = await running(store, worker)
    await time.advance(20)
    quick = await running(store, worker)
    await finish(store, succeeded(quick))
    await time.advance(6 * DAY)
    await finish(store, succeeded(slow))
    await time.advance(1 * DAY)

    assert await pruned(store) == 1
    assert await left(store) == [slow.id]
    await time.advance(6 * DAY)
    assert await pruned(store) == 1


@pytest.mark.spec("lifecycle-15")
async def test_the_kind_counts_more_than_the_lane_and_the_lane_more_than_the_yard(
    store: Store, time: StoreTime
) -> None:
    retention = Retention(
        completed=timedelta(days=3),
        lanes={"slow": Keep(completed=timedelta(days=5)), "odd": Keep(failed=timedelta(0))},
        kinds={"mail": Keep(completed=timedelta(days=1)), "kept": Keep(completed=FOREVER)},
    )
    places = {
        (lane, kind): await completed(store, lane=lane, kind=kind)
        for lane in ("slow", "odd", "plain")
        for kind in ("work", "mail", "kept")
    }
    gone: list[set[tuple[str, str]]] = []
    for _ in range(6):
        await time.advance(DAY)
        before = set(await left(store))
        dry = await pruned(store, retention, dry_run=True)
        assert await pruned(store, retention, limit=2) == dry
        missing = before - set(await left(store))
        gone.append({place for place, task_id in places.items() if task_id in missing})

    mail = {("slow", "mail"), ("odd", "mail"), ("plain", "mail")}
    usual = {("odd", "work"), ("plain", "work")}
    assert gone == [mail, set(), usual, set(), {("slow", "work")}, set()]
    await time.advance(10_000 * DAY)
    assert await pruned(store, retention) == 0


@pytest.mark.spec("lifecycle-15")
async def test_a_dry_run_counts_and_changes_nothing(store: Store, time: StoreTime) -> None:
    ids = [await completed(store), await failing(store), await cancelled(store)]
    await time.advance(30 * DAY)
    before = await store.audit(limit=1000)

    assert await pruned(store, dry_run=True) == 3
    assert await pruned(store, limit=1, dry_run=True) == 3

    assert await left(store) == ids
    assert await store.audit(limit=1000) == before


@pytest.mark.spec("lifecycle-15")
async def test_a_step_looks_at_no_more_than_it_is_told(store: Store, time: StoreTime) -> None:
    ids = [await completed(store) for _ in range(7)]
    await time.advance(7 * DAY)

    first = await store.prune(USUAL, actor="ann", limit=3)
    assert first.tasks == 3
    assert first.mark is not None
    assert len(await left(store)) == 4

    taken = await steps(store, limit=3)
    assert [step.tasks for step in taken if step.tasks] == [3, 1]
    assert await left(store) == []
    assert [task_id for task_id in ids if await store.get(task_id)] == []


@pytest.mark.spec("lifecycle-15", "lifecycle-17")
async def test_a_run_is_one_line_of_the_audit_trail(store: Store, time: StoreTime) -> None:
    for _ in range(5):
        await completed(store)
    await failing(store)
    await time.advance(30 * DAY)

    assert await pruned(store, limit=2) == 6
    assert await told(store) == [("ann", "6")]

    await completed(store)
    assert await pruned(store) == 0
    assert await told(store) == [("ann", "6")]
    await time.advance(7 * DAY)
    await pruned(store)
    assert await told(store) == [("ann", "6"), ("ann", "1")]


@pytest.mark.spec("lifecycle-15", "lifecycle-17")
async def test_old_lines_of_the_audit_trail_go_as_well(store: Store, time: StoreTime) -> None:
    for _ in range(5):
        await store.pause_yard(True, actor="old")
    await time.advance(90 * DAY - 1)
    await store.pause_yard(False, actor="new")

    assert sum(step.audit for step in await steps(store, limit=2)) == 0
    await time.advance(1)
    assert sum(step.audit for step in await steps(store, dry_run=True)) == 0
    assert sum(step.audit for step in await steps(store, limit=2)) == 5

    [line] = await store.audit()
    assert line.actor == "new"
    await store.pause_yard(True, actor="newer")
    numbers = [one.no for one in await store.audit()]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.spec("lifecycle-15")
async def test_a_pruned_task_is_one_that_never_was(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    dedup = Dedup("d", Until.END)
    task = await running(store, worker, id="t", keys=("k", "l"), dedup=dedup)
    await store.report(task.hold, Progress(1, 2, "half"))
    await finish(store, failed(task, retry=False))
    await time.advance(30 * DAY)
    await pruned(store)

    for verb in (
        store.cancel("t", actor="ann"),
        store.retry("t", actor="ann"),
        store.prioritize("t", 1, actor="ann"),
        store.explain("t"),
    ):
        with pytest.raises(NotFound):
            await verb
    assert await store.get("t") is None
    assert await store.endings(["t"]) == []
    assert await store.find(TaskQuery(key="k")) == []
    assert await store.export() == []
    assert await store.finish([succeeded(task)]) == [Stale(task.no, task.attempt)]
    assert not await store.report(task.hold, Progress(2))
    await store.mark_started([task.hold])

    again = await enqueued(store, id="t", keys=("k",), dedup=dedup)
    fresh = await seen(store, again)
    assert (fresh.attempt, fresh.failures, fresh.progress) == (0, (), None)
    assert await refused_as_duplicate(store, dedup=dedup) == "t"
    worker = await node(store)
    assert (await worker.claim_one()).attempt == 1
    assert await store.finish([succeeded(task)]) == [Stale(task.no, task.attempt)]


@pytest.mark.spec("lifecycle-15")
async def test_a_dedup_key_that_another_task_keeps_now_stays_kept(
    store: Store, time: StoreTime
) -> None:
    dedup = Dedup("d", Until.END)
    await completed(store, dedup=dedup)
    keeper = await enqueued(store, dedup=dedup)
    await time.advance(7 * DAY)

    assert await pruned(store) == 1
    assert await refused_as_duplicate(store, dedup=dedup) == keeper


@pytest.mark.spec("lifecycle-15")
async def test_a_task_that_got_a_new_life_is_not_old(store: Store, time: StoreTime) -> None:
    revived = await failing(store)
    await time.advance(30 * DAY)
    await store.retry(revived, actor="ann")

    assert await pruned(store) == 0
    worker = await node(store)
    await complete(store, await worker.claim_one())
    await time.advance(7 * DAY - 1)
    assert await pruned(store) == 0
    await time.advance(1)
    assert await pruned(store) == 1


@pytest.mark.spec("lifecycle-15", "lifecycle-7")
async def test_a_list_goes_on_behind_a_task_that_was_pruned(store: Store, time: StoreTime) -> None:
    old = [await enqueued(store) for _ in range(2)]
    middle = await cancelled(store)
    new = [await enqueued(store) for _ in range(2)]
    first = await store.find(TaskQuery(limit=3))
    assert first[-1].id == middle
    await time.advance(30 * DAY)
    await pruned(store)

    rest = await store.find(TaskQuery(limit=3, after=first[-1].no))

    assert [task.id for task in rest] == old[::-1]
    assert await left(store) == [*old, *new]


@pytest.mark.spec("lifecycle-15")
async def test_figures_are_right_after_pruning(store: Store, time: StoreTime) -> None:
    await completed(store, lane="one")
    await completed(store, lane="two")
    waiting = await enqueued(store, lane="one", keys=("k",))
    lanes = await store.lanes()
    await time.advance(7 * DAY)
    await pruned(store)

    assert await store.lanes() == lanes
    counts = await store.counts()
    assert {state: count for state, count in counts.items() if count} == {State.QUEUED: 1}
    assert await left(store) == [waiting]


@pytest.mark.spec("lifecycle-15")
async def test_tasks_that_were_copied_here_go_when_they_are_old(
    store: Store, time: StoreTime
) -> None:
    """Whatever numbers they brought."""
    await completed(store)
    [moved] = await store.export()
    task = moved.task
    far = task.no * 2 + 10
    low = msgspec.structs.replace(task, id="low", no=5, seq=5)
    high = msgspec.structs.replace(task, id="high", no=far, seq=far)
    await store.import_tasks(
        [msgspec.structs.replace(moved, task=one) for one in (high, low)],
    )
    await time.advance(7 * DAY)

    assert await pruned(store, limit=1) == 3


@pytest.mark.spec("lifecycle-15")
async def test_pruning_while_claims_flow_loses_nothing(
    store: Store, elsewhere: Store, time: StoreTime
) -> None:
    """One prunes step by step, and between any two steps another enqueues, claims and ends."""
    worker = await node(elsewhere, slots=100)
    for _ in range(10):
        await enqueued(elsewhere, keys=("k",))
    for _ in range(10):
        for task in await worker.claim(10):
            await finish(elsewhere, succeeded(task))
    await time.advance(7 * DAY)
    worker = await node(elsewhere, slots=100)
    mark: Mark | None = Mark(State.COMPLETED)
    removed, fresh = 0, list[str]()
    while mark is not None:
        fresh.append(await enqueued(elsewhere, keys=("k",)))
        claimed = await worker.claim(10)
        step = await store.prune(USUAL, actor="ann", after=mark, limit=2)
        removed, mark = removed + step.tasks, step.mark
        assert claimed
        for task in claimed:
            await finish(elsewhere, succeeded(task, '"done"'))

    assert removed == 10
    assert await left(store) == fresh
    for task_id in fresh:
        assert (await seen(store, task_id)).result == '"done"'


@pytest.mark.spec("lifecycle-15", "engine-19")
async def test_nothing_is_lost_where_one_prunes_and_another_works_at_the_same_time(
    store: Store, elsewhere: Store
) -> None:
    """What has ended goes at once, while its neighbours are claimed and ended."""
    many, over = 200, asyncio.Event()
    ids = [f"t{number}" for number in range(many)]
    ran: list[str] = []

    async def work() -> None:
        worker = await node(elsewhere, slots=many)
        for first in range(0, many, 10):
            some = [new(id=task_id, keys=(task_id,)) for task_id in ids[first : first + 10]]
            await elsewhere.enqueue(some)
            for task in await worker.claim(10):
                ran.append(task.id)
                assert await elsewhere.finish([succeeded(task)]) == [
                    Finished(task.no, State.COMPLETED)
                ]
        over.set()

    async def prune() -> int:
        removed = 0
        while not over.is_set():
            removed += await pruned(store, AT_ONCE, limit=7)
        return removed + await pruned(store, AT_ONCE)

    async with asyncio.TaskGroup() as group:
        pruning = group.create_task(prune())
        group.create_task(work())

    assert ran == ids
    assert pruning.result() == many
    assert await left(store) == []
    assert sum(int(detail) for _, detail in await told(store)) == many
