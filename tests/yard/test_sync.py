"""`yard.sync`: the same verbs without a loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskyard import (
    Context,
    Duplicate,
    NotFound,
    ResultTimeout,
    State,
    SyncYard,
    TaskFailed,
    TaskQuery,
    Worker,
    Yard,
)
from taskyard.domain.errors import StoreUnavailable
from taskyard.verbs.sync import Twin
from tests.servers.urls import STORES, lent_url

# Of the async side only: a connection of the caller's, a worker, and what a loop is needed for.
WITHOUT_TWIN = {"enqueue_in", "work"}

pytestmark = pytest.mark.spec("engine-35")


async def started(yard: Twin) -> Worker:
    worker = yard.worker(slots=2)
    await worker.start()
    return worker


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.fixture(params=STORES)
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    with lent_url(request.param, tmp_path) as url:
        yard = Yard(url)
        yield yard
        yard.sync.close()


def test_a_script_enqueues_and_waits_without_a_loop(yard: Yard) -> None:
    @yard.task()
    async def double(number: int) -> int:
        return number * 2

    @yard.task()
    def broken(ctx: Context) -> None:
        raise ValueError("as always")

    handle = double.options(key="a", id="one").sync.enqueue(21)
    assert (handle.id, handle.status()) == ("one", State.QUEUED)
    again = double.options(id="one").sync.enqueue(21)
    assert again.duplicate
    failing = broken.options(retries=0).sync.enqueue()
    yard.sync.run(started)

    number: int = handle.result(timeout=20)
    assert number == 42
    assert yard.sync.handle("one").result(20) == 42
    with pytest.raises(TaskFailed, match="as always"):
        failing.result(20)
    failing.retry()
    with pytest.raises(TaskFailed):
        failing.result(20)
    with pytest.raises(NotFound):
        yard.sync.get("nobody")


def test_all_verbs_of_a_waiting_task(yard: Yard) -> None:
    @yard.task(lane="slow")
    async def work(number: int) -> None: ...

    with yard.sync as sync:
        sync.set_lane("slow", capacity=3)
        first, second = (work.new(number) for number in (1, 2))
        assert [answer.id for answer in sync.enqueue(first, second)] == [first.id, second.id]  # type: ignore[union-attr]
        assert sync.enqueue(first) == [Duplicate(first.id)]
        handle = sync.handle(first.id)
        handle.prioritize(1)
        assert handle.task().priority == 1
        assert "no live worker" in handle.explain().text
        assert handle.cancel(actor="me") == "cancelled"
        with pytest.raises(ResultTimeout):
            sync.handle(second.id).result(timeout=0.01)
        assert sync.counts()[State.QUEUED] == 1
        assert [task.id for task in sync.find(TaskQuery(state=State.QUEUED))] == [second.id]
        assert [lane.capacity for lane in sync.lanes() if lane.name == "slow"] == [3]
        assert sync.audit()[0].actor == "me"


def test_many_threads_share_one_loop(yard: Yard) -> None:
    @yard.task()
    async def work(number: int) -> None: ...

    callers = [
        threading.Thread(target=lambda: [work.sync.enqueue(n) for n in range(20)]) for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert yard.sync.counts()[State.QUEUED] == 160
    assert names_of_threads().count("taskyard-bridge") == 1
    yard.sync.close()
    assert "taskyard-bridge" not in names_of_threads()
    assert yard.sync.counts()[State.QUEUED] == 160, "it begins anew"


def test_on_a_loop_it_says_what_to_do_instead(yard: Yard) -> None:
    @yard.task()
    async def work() -> None: ...

    async def main() -> None:
        with pytest.raises(RuntimeError, match="await the verb"):
            yard.sync.counts()
        with pytest.raises(RuntimeError, match="await the verb"):
            work.sync.enqueue()
        assert sum((await asyncio.to_thread(yard.sync.counts)).values()) == 0

    asyncio.run(main())


async def test_beside_the_loop_of_a_program(yard: Yard) -> None:
    """A body in a thread enqueues through `.sync` while its worker is at home on another loop."""

    @yard.task()
    def child() -> str:
        return "child"

    @yard.task()
    def parent() -> str:
        return child.sync.enqueue().result(20)

    async with yard:
        worker = yard.worker(slots=2)
        await worker.start()
        handle = await parent.enqueue()
        assert await handle.result(20) == "child"
        await asyncio.to_thread(yard.sync.close)


def test_a_yard_in_memory_is_one_and_the_same() -> None:
    yard = Yard("sqlite://:memory:")

    @yard.task()
    async def work() -> None: ...

    async def main() -> None:
        async with yard:
            handle = await work.enqueue()
            assert (await asyncio.to_thread(yard.sync.get, handle.id)).id == handle.id
            await asyncio.to_thread(yard.sync.close)
            assert (await handle.task()).state is State.QUEUED, "closing one side leaves the other"

    asyncio.run(main())


def test_an_error_of_the_store_reaches_the_caller(tmp_path: Path) -> None:
    yard = Yard(f"sqlite:///{tmp_path / 'no' / 'folder' / 'yard.db'}")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="no folder"):
            yard.sync.counts()
    yard.sync.close()


def test_every_verb_has_its_twin_with_the_same_signature() -> None:
    verbs = {
        name
        for name, verb in inspect.getmembers(Yard, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in WITHOUT_TWIN
    }
    assert verbs == {
        name
        for name, verb in inspect.getmembers(SyncYard, inspect.isfunction)
        if not name.startswith("_") and name not in ("run", "handle")
    }
    for name in verbs - {"close"}:
        ours, theirs = getattr(SyncYard, name), getattr(Yard, name)
        assert inspect.signature(ours) == inspect.signature(theirs), name
        assert not inspect.iscoroutinefunction(ours), name
