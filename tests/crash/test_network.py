"""Faults 9 and 10: the line to the server is cut, slow, silent, or loses answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from taskyard import Reason, State
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.outcome import Stale
from taskyard.domain.task import Duplicate, Enqueue
from taskyard.store.port import Claim, Store
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, new, node, running, seen, succeeded
from tests.crash.conftest import Stage
from tests.crash.crew import PATIENCE, wait_for
from tests.crash.proxy import Proxy
from tests.crash.record import What
from tests.servers.redis import RedisServer

SLOW = 0.1  # seconds each piece is late


class Wire(msgspec.Struct):
    """One store, by a line that can be spoilt and by one that cannot."""

    proxy: Proxy
    direct: str

    @property
    def url(self) -> str:
        return self.proxy.url(self.direct)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    server = RedisServer("--appendfsync", "always")
    server.start()
    yield server
    server.remove()


@pytest.fixture(params=["postgres", "redis"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    server = request.getfixturevalue(request.param)
    name = f"test_{time.monotonic_ns()}"
    proxy = Proxy(server.port)
    yield Wire(proxy, f"{server.url}?namespace={name}")
    proxy.stop()


@asynccontextmanager
async def both(wire: Wire) -> AsyncIterator[tuple[Store, Store]]:
    """The store through the proxy, and beside it."""
    spoilt, direct = open_store(wire.url), open_store(wire.direct)
    await direct.open()
    await spoilt.open()
    try:
        yield spoilt, direct
    finally:
        await spoilt.close()
        await direct.close()


async def lose_the_answer(
    wire: Wire, call: Awaitable[object], landed: Callable[[], Awaitable[bool]]
) -> None:
    """Forward the request, throw its answer away when it has taken effect, then cut the line."""
    wire.proxy.losing = True
    asked = asyncio.ensure_future(call)
    async with asyncio.timeout(PATIENCE):
        while not await landed() or not wire.proxy.swallowed:  # noqa: ASYNC110 - by others
            await asyncio.sleep(0.01)
    wire.proxy.cut()
    wire.proxy.losing = False
    with pytest.raises(StoreUnavailable):
        await asked


@pytest.mark.spec("reliability-9", "engine-16", "engine-18")
async def test_an_enqueue_that_landed_unheard_can_be_repeated(wire: Wire) -> None:
    async with both(wire) as (store, direct):
        await enqueued(store)  # the driver knows the statement now: one request, one answer
        task = new()

        async def landed() -> bool:
            return await direct.get(task.id) is not None

        await lose_the_answer(wire, store.enqueue([task]), landed)

        again: list[Enqueue] = [Duplicate(task.id)]
        assert await store.enqueue([task]) == again
        assert (await store.counts())[State.QUEUED] == 2


@pytest.mark.spec("reliability-9", "engine-13")
async def test_a_claim_that_landed_unheard_gives_the_same_tasks_again(wire: Wire) -> None:
    async with both(wire) as (store, direct):
        worker = await node(store)
        await worker.ask(3)
        ids = {await enqueued(store) for _ in range(5)}

        async def landed() -> bool:
            return (await direct.counts())[State.RUNNING] == 3

        await lose_the_answer(wire, worker.ask(3), landed)

        again = await worker.ask_again(3)
        assert len({task.id for task in again.tasks} & ids) == 3
        assert {task.attempt for task in again.tasks} == {1}
        assert _without_waits(await worker.ask_again(3)) == _without_waits(again)
        rest: Claim = await worker.ask(5)
        assert {task.id for task in again.tasks} | {task.id for task in rest.tasks} == ids


def _without_waits(claim: Claim) -> Claim:
    """How long a task has waited is told by when it is asked."""
    tasks = [msgspec.structs.replace(task, waited=0.0) for task in claim.tasks]
    return msgspec.structs.replace(claim, tasks=tasks)


@pytest.mark.spec("reliability-9", "engine-19")
async def test_a_finish_that_landed_unheard_is_not_done_twice(wire: Wire) -> None:
    async with both(wire) as (store, direct):
        worker = await node(store)
        await finish(store, succeeded(await running(store, worker)))
        task = await running(store, worker)

        async def landed() -> bool:
            return (await seen(direct, task.id)).state is State.COMPLETED

        await lose_the_answer(wire, finish(store, succeeded(task)), landed)
        before = await seen(direct, task.id)

        assert await finish(store, succeeded(task)) == [Stale(task.no, task.attempt)]
        assert await seen(store, task.id) == before


@pytest.mark.spec("reliability-9", "engine-19")
@pytest.mark.parametrize("losing", [False, True], ids=["reset", "answers lost"])
async def test_a_line_cut_again_and_again_breaks_no_promise(
    wire: Wire, stage: Stage, losing: bool
) -> None:
    async with stage(wire.direct) as scene:
        scene.lease = 10.0
        kinds = scene.kinds
        ids = await scene.enqueue(
            *(kinds.slow.new([], "default", 0.02) for _ in range(60)),
            *(kinds.slow.options(key="k").new(["k"], "default", 0.01) for _ in range(10)),
            *(kinds.flaky.new([], "default", 1) for _ in range(5)),
        )
        scene.crew.url = wire.url
        for name in ("a", "b"):
            scene.worker(name, slots=3)

        ended, pause = asyncio.create_task(scene.all_ended(*ids)), 0.25
        while not ended.done():
            wire.proxy.losing = losing
            await asyncio.sleep(0.05)
            wire.proxy.cut()
            wire.proxy.losing = False
            await asyncio.wait([ended], timeout=pause)
            pause *= 1.1  # on a busy machine a call takes longer than that

        assert {(task.state, task.losses) for task in await ended} == {(State.COMPLETED, 0)}
        assert await scene.broken() == []


@pytest.mark.spec("reliability-9", "engine-20")
async def test_a_slow_line_costs_nothing_but_time(wire: Wire, stage: Stage) -> None:
    """Also when it takes longer to connect than a beat is waited for."""
    async with stage(wire.direct) as scene:
        scene.lease = 8.0
        scene.crew.url = wire.url
        wire.proxy.delay = SLOW
        scene.worker("a", slots=4)  # busy for longer than a lease
        ids = await scene.enqueue(*(scene.kinds.slow.new([], "default", 4.4) for _ in range(8)))

        tasks = await scene.all_ended(*ids)
        found = {(task.state, task.attempt, task.losses) for task in tasks}
        assert found == {(State.COMPLETED, 1, 0)}
        assert await scene.broken() == []


@pytest.mark.spec("reliability-9", "engine-19", "engine-20")
async def test_a_worker_in_a_black_hole_is_replaced_and_changes_nothing(
    wire: Wire, stage: Stage
) -> None:
    """It stops its bodies before its lease ends, so that they and their next attempt never meet."""
    async with stage(wire.direct) as scene:
        scene.lease = 5.0
        through, beside = wire.url, wire.direct
        scene.worker("second", "quick")  # will be in contact for a lease
        scene.crew.url = through
        lost = scene.worker("lost", "gated")
        ids = await scene.enqueue(
            *(scene.kinds.gated.new(str(scene.gate), []) for _ in range(3)),
        )
        for task_id in ids:
            scene.started(task_id)

        wire.proxy.hold()
        for task_id in ids:
            await scene.until(task_id, lambda task: task.state is State.QUEUED)
            assert scene.crew.find(What.END, task=task_id, attempt=1)
        scene.crew.url = beside
        scene.worker("third", "gated")
        scene.open_gate()
        tasks = await scene.all_ended(*ids)
        wire.proxy.let_pass()

        quick = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
        await scene.ended(quick)
        assert {(task.state, task.attempt) for task in tasks} == {(State.COMPLETED, 2)}
        assert {task.failures[0].reason for task in tasks} == {Reason.RESCUED}
        assert [await scene.yard.get(task_id) for task_id in ids] == tasks
        assert lost.alive
        assert await scene.broken() == []


@pytest.mark.spec("reliability-10", "engine-23")
async def test_polling_takes_over_when_hints_are_silently_dead(wire: Wire, stage: Stage) -> None:
    async with stage(wire.direct) as scene:
        scene.crew.url = wire.url
        scene.worker("a")
        await scene.ended(await scene.enqueue_one(scene.kinds.quick.new([], "default")))
        wait_for(lambda: wire.proxy.hint_lines == 1, "the worker to listen")
        wire.proxy.mute = True

        before = wire.proxy.swallowed
        await scene.ended(await scene.enqueue_one(scene.kinds.quick.new([], "default")))

        wait_for(lambda: wire.proxy.swallowed > before, "a hint to be lost")
        assert await scene.broken() == []
