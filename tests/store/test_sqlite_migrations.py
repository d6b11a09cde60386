"""A file made by an earlier release goes on where it stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from taskyard.domain.lane import KeyRule, Lane, LaneChange, Order
from taskyard.domain.node import Hold
from taskyard.domain.outcome import Finished, Succeeded, decide
from taskyard.domain.retry import Retry
from taskyard.domain.state import State
from taskyard.domain.task import Claimed
from taskyard.store.port import Promoted
from taskyard.store.sqlite.clock import SqliteClock
from taskyard.store.sqlite.connection import MEMORY, connect
from taskyard.store.sqlite.migrate import migrate, newest_version, schema_version
from taskyard.store.sqlite.queries import in_namespace, migrations
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.verbs import complete, enqueued, node, seen

BEFORE_RANKS = 2
LONG_AGO = 1_000_000

TASK = """
INSERT INTO taskyard_tasks (
    no, id, lane, route, priority, seq, state, reason, max_charged, timeout, created_at, run_at,
    keys, parked_on, lease, attempt, started_at, ended_at)
VALUES (:no, :id, 1, 1, :priority, :no, :state, :reason, 4, 60000000, :at, :run_at,
        :keys, :parked_on, :lease, :attempt, :started_at, :ended_at)
"""


def old_file(path: Path, namespace: str, version: int) -> None:
    """As the release with that schema left it: its migrations, and a task of each kind."""
    with closing(connect(str(path))) as db:
        db.execute(
            in_namespace("CREATE TABLE taskyard_meta (name TEXT PRIMARY KEY, value)", namespace)
        )
        for number, sql in migrations():
            if number <= version:
                db.execute(in_namespace(sql, namespace))
        db.execute(in_namespace(SETTINGS, namespace), {"schema": version})
        for task in TASKS:
            db.execute(in_namespace(TASK, namespace), NOTHING | task)
            payload = "INSERT INTO taskyard_payloads (no, payload) VALUES (?, '[]')"
            db.execute(in_namespace(payload, namespace), (task["no"],))
        db.execute(in_namespace("INSERT INTO taskyard_held (key, no) VALUES ('k', 3)", namespace))


SETTINGS = f"""
INSERT INTO taskyard_meta (name, value) VALUES ('schema', :schema);
UPDATE taskyard_meta SET value = 100 WHERE name = 'seq';
INSERT INTO taskyard_lanes (no, name, capacity) VALUES (1, 'default', 9);
INSERT INTO taskyard_routes (no, kind) VALUES (1, 'work');
INSERT INTO taskyard_key_rules (pattern, key_limit) VALUES ('host:*', 4);
INSERT INTO taskyard_nodes (lease, id, state, kinds, capabilities, labels, slots, lease_us, boot,
                            until, registered_at, seen_at)
VALUES (1, 'old', 'ready', '["work"]', '[]', '{{}}', 10, 1000000000000, '{SqliteClock().boot_id}',
        {10**17}, {LONG_AGO}, {LONG_AGO});
"""

NOTHING: dict[str, apsw.SQLiteValue] = {
    "priority": 5,
    "reason": "created",
    "at": LONG_AGO,
    "run_at": LONG_AGO,
    **dict.fromkeys(("keys", "parked_on", "lease", "started_at", "ended_at")),
    "attempt": 0,
}
TASKS: list[dict[str, apsw.SQLiteValue]] = [
    {"no": 1, "id": "calm", "state": "queued", "priority": 9},
    {"no": 2, "id": "urgent", "state": "queued", "priority": 1},
    {
        "no": 3,
        "id": "running",
        "state": "running",
        "reason": "claimed",
        "keys": '["k"]',
        "lease": 1,
        "attempt": 1,
        "started_at": LONG_AGO,
    },
    {"no": 4, "id": "parked", "state": "queued", "keys": '["k"]', "parked_on": "k"},
    {"no": 5, "id": "later", "state": "pending", "run_at": 10**17},
    {"no": 6, "id": "due", "state": "pending", "priority": 2},
    {"no": 7, "id": "done", "state": "completed", "reason": "finished", "ended_at": LONG_AGO},
]


@pytest.fixture(params=["taskyard", "blue"])
async def old(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SqliteStore]:
    path = tmp_path / "yard.db"
    old_file(path, request.param, BEFORE_RANKS)
    store = SqliteStore(str(path), namespace=request.param)
    yield store
    await store.close()


@pytest.mark.spec("engine-27", "engine-18")
async def test_tasks_of_an_old_file_go_on_in_their_order(old: SqliteStore) -> None:
    assert await old.promote() == Promoted(1, 10**17)
    worker = await node(old)

    assert await worker.claim_ids(10) == ["urgent", "due", "calm"]

    ran = Claimed(3, "running", "work", "default", 1, 0, 4, 60.0, "[]", lease=1)
    done = decide(ran, Succeeded(), Retry.never())
    assert await old.finish([done]) == [Finished(3, State.COMPLETED)]
    assert await worker.claim_ids(10) == ["parked"]


@pytest.mark.spec("engine-27", "engine-7")
async def test_what_ran_when_the_file_was_old_comes_back_in_place(old: SqliteStore) -> None:
    await old.rescue([1], ended=False)
    worker = await node(old)

    assert await worker.claim_ids(10) == ["urgent", "running", "calm"]  # "parked" needs its key


@pytest.mark.spec("engine-27")
async def test_an_old_file_is_read_as_before(old: SqliteStore) -> None:
    assert await old.lanes() == [Lane(name="default", capacity=9, running=1, queued=3, pending=2)]
    assert await old.key_rules() == [KeyRule("host:*", 4)]
    assert await old.holds(1) == [Hold(3, 1, 1)]
    assert (await seen(old, "done")).state is State.COMPLETED
    assert (await old.counts())[State.QUEUED] == 3
    task = await seen(old, "parked")
    assert (task.depends_on, task.waits_for, task.checkpoint) == ((), 0, None)


@pytest.mark.spec("engine-27", "engine-9")
async def test_an_old_file_has_what_is_new(old: SqliteStore) -> None:
    await old.rescue([1], ended=False)
    await old.set_lane("default", LaneChange(order=Order.FIFO, max_depth=9), actor="ann")
    follower = await enqueued(old, depends_on=("urgent",))
    worker = await node(old)

    tasks = await worker.claim(10)

    assert [task.id for task in tasks] == ["calm", "urgent", "running"]  # "parked" is the head now
    await complete(old, tasks[2])
    assert await worker.claim_ids(10) == ["parked"]
    await complete(old, tasks[1])
    assert await worker.claim_ids(10) == [follower]


@pytest.mark.spec("engine-27")
def test_an_old_file_gets_the_layout_of_a_new_one(tmp_path: Path) -> None:
    old_file(tmp_path / "yard.db", "taskyard", 1)
    with closing(connect(str(tmp_path / "yard.db"))) as old, closing(connect(MEMORY)) as new:
        for db in (old, new):
            migrate(db, "taskyard", "yard.db")

        assert schema_version(old, "taskyard") == newest_version()
        assert layout(old) == layout(new)


def layout(db: apsw.Connection) -> list[tuple[object, ...]]:
    """Everything but how the table of settings, which no migration makes, was written down."""
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE '%meta%' ORDER BY 1")
    return list(rows)
