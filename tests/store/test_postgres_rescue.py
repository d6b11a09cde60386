"""A rescuer on PostgreSQL looks, decides and takes back; it may be stopped anywhere between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from taskyard.domain.errors import StoreBusy
from taskyard.domain.node import Lease, NewNode
from taskyard.domain.outcome import Finished, LostRun, Verdict
from taskyard.domain.state import Reason, State
from taskyard.store.port import Store
from taskyard.store.postgres import nodes
from taskyard.store.postgres.connection import Database
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.url import open_store
from tests.conformance.places import PostgresSchema
from tests.conformance.verbs import (
    LEASE_SECONDS,
    complete,
    enqueued,
    finish,
    new,
    node,
    released,
    state_of,
    succeeded,
)
from tests.crash.proxy import Proxy
from tests.servers.postgres import shared_url

HANGS = 20.0
MANY = 120  # enough in one claim for a floor

Decide = Callable[[Sequence[LostRun]], list[Verdict]]


@pytest.fixture
def place(tmp_path: Path) -> PostgresSchema:
    return PostgresSchema(tmp_path)


@pytest.fixture
async def store(place: PostgresSchema) -> AsyncIterator[PostgresStore]:
    store = place.view()
    assert isinstance(store, PostgresStore)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def line() -> Iterator[Proxy]:
    proxy = Proxy(int(shared_url().rpartition(":")[2].partition("/")[0]))
    yield proxy
    proxy.let_pass()
    proxy.stop()


@pytest.fixture
async def rescuer(place: PostgresSchema, store: PostgresStore, line: Proxy) -> AsyncIterator[Store]:
    """One whose line can be held."""
    rescuer = open_store(line.url(place.url))
    assert isinstance(rescuer, PostgresStore)
    rescuer.clock = store.clock
    await rescuer.open()
    yield rescuer
    await rescuer.close()


def while_deciding(
    monkeypatch: pytest.MonkeyPatch, name: str, happens: Callable[[], object]
) -> None:
    """Something happens once, between the look of a rescuer and what it does about it."""
    decide: Decide = getattr(nodes, name)
    once = [happens]

    def deciding(runs: Sequence[LostRun]) -> list[Verdict]:
        while once:
            once.pop()()
        return decide(runs)

    monkeypatch.setattr(nodes, name, deciding)


@pytest.mark.spec("engine-19", "engine-29")
@pytest.mark.parametrize("verb", ["rescue", "retire"])
async def test_a_rescuer_that_is_stopped_halfway_keeps_nobody_waiting(
    store: Store, rescuer: Store, line: Proxy, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    dead, other = await node(store, slots=500), await node(store, "node-b", slots=500)
    await store.set_key_rule("k", 5, actor="ann")
    await store.enqueue([new() for _ in range(3 * MANY)])
    for _ in range(2):
        await complete(store, *await other.claim(MANY))  # there are floors
    theirs = await dead.claim(20)
    mine = await other.claim(5)
    await enqueued(store, keys=("k",))
    stopped = asyncio.Event()

    def stop() -> None:
        line.hold()
        stopped.set()

    name = {"rescue": "_decide_lost", "retire": "_release"}[verb]
    while_deciding(monkeypatch, name, stop)
    rescuing = asyncio.create_task(_take_back(rescuer, verb, dead.lease))
    async with asyncio.timeout(HANGS):
        await stopped.wait()
        assert not (await asyncio.to_thread(other.beat)).lost
        assert not (await asyncio.to_thread(dead.beat)).lost
        await finish(store, released(mine[0]))
        await store.register(NewNode(id="node-c", kinds=("work",), slots=1))
        await store.cancel(theirs[0].id, actor="ann")
        assert await finish(store, succeeded(theirs[1])) == [
            Finished(theirs[1].no, State.COMPLETED)
        ]
        assert len(await other.claim(50)) == 50

        line.let_pass()
        await rescuing

    assert await state_of(store, theirs[0].id) == (State.CANCELLED, Reason.OPERATOR)
    assert await state_of(store, theirs[1].id) == (State.COMPLETED, Reason.FINISHED)
    expected = Reason.RESCUED if verb == "rescue" else Reason.RELEASED
    assert await state_of(store, theirs[2].id) == (State.QUEUED, expected)
    assert [found.id for found in await store.nodes()] == ["node-b", "node-c"]


async def _take_back(store: Store, verb: str, lease: Lease) -> None:
    if verb == "rescue":
        await store.rescue([lease], ended=False)
    else:
        await store.retire(lease)


@pytest.mark.spec("engine-19")
async def test_a_node_that_beats_while_its_rescue_is_decided_keeps_its_tasks(
    store: Store, place: PostgresSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await node(store)
    task_id = await enqueued(store)
    await worker.claim_one()
    await place.advance(LEASE_SECONDS + 1)
    while_deciding(monkeypatch, "_decide_lost", worker.beat)

    assert await store.rescue() == []
    assert await state_of(store, task_id) == (State.RUNNING, Reason.CLAIMED)


@pytest.mark.spec("engine-19")
async def test_a_node_whose_runs_never_stand_still_is_told_as_busy(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await node(store)
    await store.enqueue([new() for _ in range(10)])
    tasks = await worker.claim(10)
    value = Database.value

    async def value_late(database: Database, statement: str, *args: object) -> object:
        if "forget_node" in statement:
            await complete(store, tasks.pop())
        return await value(database, statement, *args)

    monkeypatch.setattr(Database, "value", value_late)
    with pytest.raises(StoreBusy, match="keeps changing"):
        await store.rescue([worker.lease], ended=False)

    assert tasks == []
