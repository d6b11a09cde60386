"""Tasks name the incarnation that had them; whose it was is known as long as somebody asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from taskyard.domain.retention import Retention
from taskyard.domain.task import TaskQuery
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.pruning import prune_all
from tests.conformance.verbs import complete, failed, finish, node, running, seen


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "yard.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    await opened.close()


async def prune(store: SqliteStore, retention: Retention) -> None:
    mark = (await store.prune(retention, actor="ann")).mark
    while mark is not None:
        mark = (await store.prune(retention, actor="ann", after=mark)).mark


def remembered(path: str) -> list[str]:
    with closing(apsw.Connection(path)) as db:
        return [str(name) for (name,) in db.execute("SELECT node FROM taskyard_incarnations")]


@pytest.mark.spec("engine-28")
async def test_a_task_knows_its_node_when_that_has_gone(store: SqliteStore, path: str) -> None:
    worker = await node(store, "first")
    task = await running(store, worker)
    assert (await seen(store, task.id)).node == "first"
    await complete(store, task)
    await store.retire(worker.lease)

    [listed] = await store.find(TaskQuery())
    assert (await seen(store, task.id)).node == listed.node == "first"

    await prune_all(store)
    assert remembered(path) == []


@pytest.mark.spec("engine-28")
async def test_one_that_waits_keeps_the_name_itself(store: SqliteStore, path: str) -> None:
    worker = await node(store, "first")
    task = await running(store, worker)
    await finish(store, failed(task, delay=1e6))
    await store.retire(worker.lease)
    await prune_all(store)

    again = await seen(store, task.id)
    assert (again.node, [failure.node for failure in again.failures]) == ("first", ["first"])
    assert remembered(path) == []


@pytest.mark.spec("engine-28")
async def test_the_next_attempt_is_of_the_next_node(store: SqliteStore) -> None:
    first, second = await node(store, "first"), await node(store, "second")
    task = await running(store, first)
    await store.rescue([first.lease], ended=False)
    assert (await seen(store, task.id)).node == "first"

    again = await second.claim_one()
    assert (again.id, (await seen(store, task.id)).node) == (task.id, "second")


@pytest.mark.spec("engine-27", "engine-28")
async def test_a_worker_of_an_earlier_version_may_have_had_it(
    store: SqliteStore, path: str
) -> None:
    worker = await node(store, "new")
    task = await running(store, worker)
    await finish(store, failed(task))
    with closing(apsw.Connection(path)) as db:  # as it wrote when it claimed
        db.execute("UPDATE taskyard_tasks SET node = 'old', attempt = attempt + 1")

    assert (await seen(store, task.id)).node == "old"
    await worker.claim_one()
    assert (await seen(store, task.id)).node == "new"


@pytest.mark.spec("engine-28")
async def test_an_incarnation_is_remembered_while_one_of_its_tasks_is_here(
    store: SqliteStore, path: str
) -> None:
    first, second = await node(store, "first"), await node(store, "second")
    early = await running(store, first)
    await complete(store, early)
    await store.retire(first.lease)
    store.clock.advance(10)
    late = await running(store, second)
    await complete(store, late)
    await store.retire(second.lease)
    assert remembered(path) == ["first", "second"]

    short = timedelta(seconds=5)
    retention = Retention(completed=short, failed=short, cancelled=short, audit=short)
    await prune(store, retention)

    assert (await seen(store, late.id)).node == "second"
    assert remembered(path) == ["second"]


@pytest.mark.spec("engine-28")
async def test_a_clock_that_is_set_back_loses_no_name(store: SqliteStore, path: str) -> None:
    worker = await node(store, "first")
    task = await running(store, worker)
    await complete(store, task)
    store.clock.advance(-3600)
    await store.retire(worker.lease)

    await prune(store, Retention())

    assert (await seen(store, task.id)).node == "first"
