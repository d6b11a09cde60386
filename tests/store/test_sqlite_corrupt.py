"""Something wrote into our tables what is no task: that task is lost, and nothing else is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from taskyard import Yard
from taskyard.domain.clock import micros
from taskyard.domain.errors import StoreCorrupt
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.outcome import Stale
from taskyard.domain.retention import Retention
from taskyard.domain.state import Reason, State
from taskyard.domain.task import TaskQuery
from taskyard.store.port import ClaimRequest
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.places import SqliteFile
from tests.conformance.verbs import (
    audited,
    complete,
    enqueued,
    finish,
    new,
    node,
    running,
    seen,
    succeeded,
)
from tests.engine.waits import ended, working

# What a worker reads when it has the task, and what is read to find it. Neither text is UTF-8.
DEFINITIONS = [
    ("payloads", "payload", "CAST(x'ff' AS TEXT)"),
    ("payloads", "payload", "x'c1'"),
    ("tasks", "id", "CAST(x'7aff' AS TEXT)"),
    ("tasks", "max_charged", "'many'"),
    ("tasks", "max_charged", "x'ff'"),
]
STATES = [
    ("tasks", "keys", "'no JSON'"),
    ("tasks", "keys", "'[1]'"),
    ("tasks", "keys", "x'ff'"),
    ("tasks", "keys", """CAST(x'5b22ff225d' AS TEXT)"""),
    ("tasks", "priority", "'high'"),
    ("tasks", "rank", "x'ff'"),
    ("tasks", "deadline", "'soon'"),
    ("tasks", "deadline", "x'ff'"),
]
GARBAGE = ["'no JSON'", "x'ff'"]

Spoil = Callable[..., None]


@pytest.fixture
def place(tmp_path: Path) -> SqliteFile:
    return SqliteFile(tmp_path)


@pytest.fixture
async def store(place: SqliteFile) -> AsyncIterator[SqliteStore]:
    view = place.view()
    assert isinstance(view, SqliteStore)
    await view.open()
    yield view
    await view.close()


@pytest.fixture
def spoil(store: SqliteStore) -> Spoil:
    """Writes something else into the row of a task, as another program would."""

    def spoil(table: str, task_id: str, column: str, value: str) -> None:
        other = apsw.Connection(store.path)
        other.execute(
            f"UPDATE taskyard_{table} SET {column} = {value}"
            " WHERE no = (SELECT no FROM taskyard_tasks WHERE id = ?)",
            (task_id,),
        )
        assert other.changes() == 1
        other.close()

    return spoil


async def told(store: SqliteStore) -> list[str]:
    """The tasks the audit trail calls unreadable."""
    return [subject for _, _, subject, _ in await audited(store, "unreadable")]


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize(("table", "column", "value"), DEFINITIONS)
async def test_a_definition_that_cannot_be_read_fails_its_task(
    store: SqliteStore, spoil: Spoil, table: str, column: str, value: str
) -> None:
    bad, good = await enqueued(store, keys=("k",)), await enqueued(store)
    behind = await enqueued(store, keys=("k",))
    spoil(table, bad, column, value)
    worker = await node(store, slots=5)

    claim = await worker.ask(5)

    assert [task.id for task in claim.tasks] == [good]
    assert claim.more
    assert (await store.counts())[State.FAILED] == 1
    assert await worker.claim_ids(4) == [behind]
    assert {hold.no for hold in await worker.holds()} == {2, 3}


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize(("table", "column", "value"), DEFINITIONS)
async def test_a_plain_definition_that_cannot_be_read_fails_its_task(
    store: SqliteStore, spoil: Spoil, table: str, column: str, value: str
) -> None:
    """It is found when all has been claimed, and another turn may be on its way."""
    [bad, *good] = [await enqueued(store) for _ in range(4)]
    spoil(table, bad, column, value)
    worker = await node(store, slots=5)
    others: list[str] = []

    async def answered(claimed: int) -> None:
        others.extend(await worker.claim_ids(5))

    request = ClaimRequest(lease=worker.lease, number=1, room=3)
    worker.number = 1
    turn = await store.turn([], request, answered)

    assert [task.id for task in turn.claim.tasks] + others == good
    assert turn.claim.more
    assert (await store.counts())[State.FAILED] == 1
    assert {hold.no for hold in await worker.holds()} == {2, 3, 4}


@pytest.mark.spec("reliability-16")
async def test_a_definition_that_is_gone_fails_its_task(store: SqliteStore) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    other = apsw.Connection(store.path)
    other.execute("DELETE FROM taskyard_payloads WHERE no = 1")
    other.close()
    worker = await node(store, slots=5)

    assert await worker.claim_ids(5) == [good]
    [ending] = await store.endings([bad])
    assert ending.state is State.FAILED
    assert ending.error is not None
    assert "cannot be read" in ending.error.message


@pytest.mark.spec("reliability-16")
async def test_a_turn_a_repeated_claim_and_a_claim_ahead_go_on_beside_it(
    store: SqliteStore, spoil: Spoil
) -> None:
    worker = await node(store)
    task = await running(store, worker)
    bad, good, ahead = [await enqueued(store) for _ in range(3)]
    spoil("payloads", bad, *DEFINITIONS[0][1:])

    request = ClaimRequest(lease=worker.lease, number=50, room=1, ahead=2)
    turn = await store.turn([succeeded(task)], request)
    assert [claimed.id for claimed in turn.claim.tasks] == [good, ahead]
    spoil("payloads", good, *DEFINITIONS[0][1:])
    assert [claimed.id for claimed in (await store.claim(request)).tasks] == [ahead]

    assert (await store.counts())[State.FAILED] == 2


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize(("table", "column", "value"), STATES)
async def test_a_state_that_cannot_be_read_leaves_the_queue(
    store: SqliteStore, spoil: Spoil, table: str, column: str, value: str
) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    dependent = await enqueued(store, depends_on=(bad,))
    spoil(table, bad, column, value)
    worker = await node(store)

    assert await worker.claim_ids(1) == [good]
    assert await worker.claim_ids(1) == []
    assert await worker.claim_ids(1) == []
    assert await told(store) == [f"task:{bad}"]
    assert (await seen(store, dependent)).reason is Reason.DEPENDENCY
    [ending] = await store.endings([bad])
    assert ending.state is State.FAILED
    assert ending.error is not None
    assert "cannot be read" in ending.error.message


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize("order", Order)
async def test_it_holds_no_lane_up(store: SqliteStore, spoil: Spoil, order: Order) -> None:
    await store.set_lane("lane", LaneChange(order=order), actor="ann")
    tasks = [await enqueued(store, lane="lane", group="g") for _ in range(4)]
    other = await enqueued(store, "mail", lane="lane", group="h")
    spoil("tasks", tasks[0], "keys", GARBAGE[0])
    spoil("tasks", tasks[2], "seq", GARBAGE[1])
    spoil("tasks", other, "deadline", GARBAGE[0])
    worker = await node(store, slots=4)

    assert await worker.claim_ids(4) == [tasks[1], tasks[3]]
    assert {f"task:{tasks[0]}", f"task:{tasks[2]}"} <= set(await told(store))


@pytest.mark.spec("reliability-16")
async def test_a_worker_goes_on_beside_what_it_cannot_read(
    place: SqliteFile, store: SqliteStore, spoil: Spoil
) -> None:
    async with Yard(place.url) as yard:

        @yard.task(name="work")
        async def work() -> str:
            return "done"

        bad, first = await enqueued(store), await work.enqueue()
        worse = await enqueued(store)
        spoil("payloads", bad, *DEFINITIONS[0][1:])
        spoil("tasks", worse, "keys", GARBAGE[0])
        async with working(yard):
            assert (await ended(first)).state is State.COMPLETED
            assert (await ended(await work.enqueue())).state is State.COMPLETED


@pytest.mark.spec("reliability-16")
async def test_it_leaves_those_who_wait_for_a_key(store: SqliteStore, spoil: Spoil) -> None:
    worker = await node(store, slots=2)
    task = await running(store, worker, keys=("k",))
    bad, good = await enqueued(store, keys=("k",)), await enqueued(store, keys=("k",))
    nobody = await enqueued(store, keys=("k",))
    spoil("tasks", bad, "keys", GARBAGE[0])
    spoil("tasks", nobody, "parked_on", GARBAGE[1])

    await complete(store, task)

    assert await worker.claim_ids(2) == [good]
    assert set(await told(store)) == {f"task:{bad}", f"task:{nobody}"}


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_it_leaves_those_who_wait_for_their_time(
    store: SqliteStore, place: SqliteFile, spoil: Spoil, garbage: str
) -> None:
    deadline = await store.now() + micros(5)
    late = await enqueued(store, delay=1.0, deadline=deadline)
    bad, never = [await enqueued(store, delay=1.0) for _ in range(2)]
    good = await enqueued(store, delay=1.0)
    spoil("tasks", late, "keys", garbage)
    spoil("tasks", bad, "priority", garbage)
    spoil("tasks", never, "run_at", garbage)
    await place.advance(10)

    assert await store.expire() == 0
    await store.promote()

    assert (await seen(store, good)).state is State.QUEUED
    assert await told(store) == [f"task:{late}", f"task:{bad}"]
    assert await store.promote() == (await store.promote())


@pytest.mark.spec("reliability-16")
async def test_a_late_one_without_a_name_expires(
    store: SqliteStore, place: SqliteFile, spoil: Spoil
) -> None:
    deadline = await store.now() + micros(5)
    bad = await enqueued(store, deadline=deadline)
    await enqueued(store, deadline=deadline)
    spoil("tasks", bad, "id", "x'ff'")
    await place.advance(10)

    assert await store.expire() == 2
    assert (await audited(store, "expired"))[-1][2] == "task:#1"


@pytest.mark.spec("reliability-16")
async def test_it_is_not_waited_upon(store: SqliteStore, spoil: Spoil) -> None:
    worker = await node(store)
    first = await running(store, worker)
    bad, worse, paused = [await enqueued(store, depends_on=(first.id,)) for _ in range(3)]
    good = await enqueued(store, depends_on=(first.id,))
    after = await enqueued(store, depends_on=(bad,))
    await store.pause(paused, actor="ann")
    spoil("tasks", bad, "run_at", GARBAGE[0])
    spoil("tasks", worse, "keys", GARBAGE[0])
    spoil("tasks", paused, "on_failure", GARBAGE[0])

    await complete(store, first)

    assert await worker.claim_ids(9) == [good]
    assert set(await told(store)) == {f"task:{bad}", f"task:{worse}", f"task:{paused}"}
    assert (await seen(store, after)).state is State.CANCELLED
    [ending] = await store.endings([paused])
    assert ending.state is State.CANCELLED


@pytest.mark.spec("reliability-16", "engine-20")
@pytest.mark.parametrize("column", ["attempt", "asked", "keys", "charged"])
async def test_it_holds_no_lease_and_no_rescue_up(
    store: SqliteStore, place: SqliteFile, spoil: Spoil, column: str
) -> None:
    worker = await node(store, slots=3)
    bad, good = [await running(store, worker, keys=(key,)) for key in "kl"]
    spoil("tasks", bad.id, column, GARBAGE[1])

    assert not worker.beat().lost
    assert good.hold in await worker.holds()
    await place.advance(100)
    [rescued] = await store.rescue()
    assert good.id in {verdict.id for verdict in rescued.verdicts}
    assert (await seen(store, good.id)).reason is Reason.RESCUED
    assert (await store.counts())[State.FAILED] == 1
    assert await told(store) == [f"task:{bad.id}"]
    assert await store.nodes() == []
    assert await store.keys() == []


@pytest.mark.spec("reliability-16")
async def test_a_late_verdict_about_it_is_stale_and_others_count(
    store: SqliteStore, spoil: Spoil
) -> None:
    worker = await node(store, slots=2)
    bad, good = await running(store, worker, keys=("k",)), await running(store, worker)
    behind = await enqueued(store, keys=("k",))
    spoil("tasks", bad.id, "keys", GARBAGE[0])

    answers = await finish(store, succeeded(bad), succeeded(good))

    assert answers[0] == Stale(bad.no, bad.attempt)
    assert (await seen(store, good.id)).state is State.COMPLETED
    assert await worker.claim_ids(1) == [behind]


@pytest.mark.spec("reliability-16")
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [*DEFINITIONS[:2], *DEFINITIONS[3:], *STATES[:5], ("progress", "progress", GARBAGE[0])],
)
async def test_whoever_asks_for_it_is_told(
    store: SqliteStore, spoil: Spoil, table: str, column: str, value: str
) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    other = apsw.Connection(store.path)
    other.execute("INSERT INTO taskyard_progress VALUES (1, '{}')")
    other.close()
    spoil(table, bad, column, value)

    for asking in (
        store.get(bad),
        store.find(TaskQuery()),
        store.export(),
        store.explain(bad),
    ):
        with pytest.raises(StoreCorrupt, match=f"task {bad} cannot be read"):
            await asking
    assert (await seen(store, good)).id == good
    assert await store.endings([bad, good]) == []
    assert (await store.counts())[State.QUEUED] == 2


@pytest.mark.spec("reliability-16")
async def test_whoever_waits_for_its_result_is_told(store: SqliteStore, spoil: Spoil) -> None:
    worker = await node(store)
    tasks = [await running(store, worker) for _ in range(3)]
    await finish(store, *(succeeded(task, '"fine"') for task in tasks))
    spoil("results", tasks[1].id, "result", "CAST(x'ff' AS TEXT)")

    endings = {one.id: one for one in await store.endings([task.id for task in tasks])}

    assert [endings[task.id].result for task in tasks] == ['"fine"', None, '"fine"']
    spoiled = endings[tasks[1].id]
    assert spoiled.state is State.FAILED
    assert spoiled.error is not None
    assert "cannot be read" in spoiled.error.message


@pytest.mark.spec("reliability-16")
async def test_an_operator_who_wants_to_change_it_is_told(store: SqliteStore, spoil: Spoil) -> None:
    bad, gone = await enqueued(store), await enqueued(store)
    await store.cancel(gone, actor="ann")
    spoil("tasks", bad, "keys", GARBAGE[0])
    spoil("tasks", gone, "grp", GARBAGE[1])

    for change in (
        store.cancel(bad, actor="ann"),
        store.pause(bad, actor="ann"),
        store.prioritize(bad, 1, actor="ann"),
    ):
        with pytest.raises(StoreCorrupt, match=bad):
            await change
    with pytest.raises(StoreCorrupt, match=gone):
        await store.retry(gone, actor="ann")
    assert (await store.counts())[State.CANCELLED] == 1


@pytest.mark.spec("reliability-16")
async def test_a_lane_gets_another_order_beside_it(store: SqliteStore, spoil: Spoil) -> None:
    bad, good = await enqueued(store), await enqueued(store)
    spoil("tasks", bad, "priority", GARBAGE[1])

    lane = await store.set_lane("default", LaneChange(order=Order.FAIR), actor="ann")

    assert lane.queued == 1
    assert await told(store) == [f"task:{bad}"]
    worker = await node(store)
    assert await worker.claim_ids(5) == [good]


@pytest.mark.spec("reliability-16")
async def test_it_is_pruned(store: SqliteStore, place: SqliteFile, spoil: Spoil) -> None:
    bad = await enqueued(store)
    spoil("tasks", bad, "keys", GARBAGE[0])
    worker = await node(store)
    assert await worker.claim_ids(1) == []
    await place.advance(100_000)

    step = await store.prune(Retention(failed=timedelta(1)), actor="ann")
    while step.mark is not None:
        step = await store.prune(Retention(failed=timedelta(1)), actor="ann", after=step.mark)

    assert await store.get(bad) is None


@pytest.mark.spec("reliability-16")
async def test_settings_that_cannot_be_read_are_told_of(store: SqliteStore, spoil: Spoil) -> None:
    await store.set_key_rule("k", 3, actor="ann")
    other = apsw.Connection(store.path)
    other.execute("UPDATE taskyard_key_rules SET rate = 'no JSON'")
    other.close()

    with pytest.raises(StoreCorrupt, match="cannot be read"):
        await store.enqueue([new(keys=("k",))])
