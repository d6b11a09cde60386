"""A yard goes on in another store as it was: every pair of stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from taskyard.domain.errors import CannotCopy
from taskyard.domain.moved import Moved
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Duplicate, Enqueued, Progress, Until
from taskyard.store.copy import copy, difference, pages
from taskyard.store.port import Store
from tests.conformance.test_namespaces import opened
from tests.conformance.verbs import (
    Worker,
    capacity,
    complete,
    enqueued,
    failed,
    hold,
    limit,
    new,
    node,
    pause,
    running,
    succeeded,
)
from tests.servers.urls import STORES, fresh_url

PAIRS = [(one, other) for one in STORES for other in STORES]


@pytest.fixture(params=PAIRS, ids=[f"{one}-to-{other}" for one, other in PAIRS])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(opened(fresh_url(request.param[0], tmp_path))),
            await stack.enter_async_context(opened(fresh_url(request.param[1], tmp_path))),
        )


async def filled(store: Store) -> None:
    """A yard with something of everything."""
    worker = await node(store, capabilities=("gpu",))
    await ended(store, worker)
    await waiting(store, worker)
    await store.retire(worker.lease)
    await limit(store, "host:*", 4)
    await limit(store, "disk", 2)
    await capacity(store, "narrow", 3)
    await pause(store, "stopped", reason="disk full ☃")


async def ended(store: Store, worker: Worker) -> None:
    task = await running(store, worker, id="completed", dedup=Dedup("free"), keys=("host:a",))
    await store.report(hold(task), Progress(3, 7, "half ☃"))
    await store.finish([succeeded(task, '{"answer": "it\'s 42 %"}')])
    task = await running(store, worker, id="failed", requires=("gpu",), timeout=1.5)
    await store.finish([failed(task, retry=False)])
    await enqueued(store, id="cancelled", lane="narrow")
    await store.cancel("cancelled", actor="ann")
    task = await running(store, worker, id="revived")
    await store.finish([failed(task, retry=False)])
    await complete(store, await running(store, worker))
    await store.retry("revived", actor="ann")
    await complete(store, await worker.claim_one())


async def waiting(store: Store, worker: Worker) -> None:
    now = await store.now()
    task = await running(store, worker, id="retried", dedup=Dedup("begun", Until.START))
    await store.finish([failed(task, delay=3600)])
    await enqueued(store, id="later", run_at=now + 10**12, group="tenant", lane="narrow")
    await enqueued(store, id="first", payload='{"n": 1}', keys=("k",))
    held = await worker.claim_one()
    await enqueued(store, id="second", keys=("k", "l"), deadline=now + 10**11)
    await enqueued(store, id="third", dedup=Dedup("kept"), max_charged=9)
    await enqueued(store, id="urgent", priority=9)
    await store.prioritize("urgent", 1, actor="ann")
    await store.finish([failed(held)])  # goes to the back, as "first"


async def all_of(store: Store) -> list[Moved]:
    return [moved async for page in pages(store) for moved in page]


@pytest.mark.spec("engine-27", "engine-1")
async def test_tasks_are_the_same_in_the_other_store(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await filled(source)

    there = await all_of(source)
    await target.import_tasks(there)
    await target.import_tasks(there)  # as after a lost answer

    assert await all_of(target) == there
    assert {moved.task.state for moved in there} == set(State) - {State.RUNNING, State.PAUSED}
    assert {m.task.dedup for m in there if m.dedup_kept} == {"kept"}
    assert any(m.task.failures for m in there)
    assert await target.counts() == await source.counts()


@pytest.mark.spec("engine-27", "engine-2", "engine-7")
async def test_the_other_store_goes_on_in_the_same_order(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await filled(source)

    counts = await copy(source, target, actor="ann")

    assert counts == await source.counts() == await target.counts()
    worker = await node(target, capabilities=("gpu",))
    assert await worker.claim_ids(20) == ["urgent", "second", "third"]  # "first" needs its key
    assert await (await node(source)).refusal() == "the yard is paused"


@pytest.mark.spec("engine-27")
async def test_settings_and_history_come_along(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await filled(source)

    await copy(source, target, actor="ann")

    assert await target.lanes() == await source.lanes()
    assert sorted(await target.key_rules(), key=str) == sorted(await source.key_rules(), key=str)
    copied = await source.audit(limit=1000)
    assert (await target.audit(limit=1000))[-len(copied) :] == copied


@pytest.mark.spec("engine-16", "engine-27")
async def test_ids_and_dedup_keys_stay_taken(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await filled(source)
    await copy(source, target, actor="ann")
    fresh = [new(dedup=Dedup("begun")), new(dedup=Dedup("free")), new()]

    answers = await target.enqueue([new(id="completed"), new(dedup=Dedup("kept")), *fresh])

    assert answers == [
        Duplicate("completed"),
        Duplicate("third"),
        *(Enqueued(task.id) for task in fresh),
    ]
    newest = [moved.task.id for moved in await all_of(target)][:3]
    assert newest == [task.id for task in reversed(fresh)]


@pytest.fixture(params=STORES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    return fresh_url(request.param, tmp_path), fresh_url(request.param, tmp_path)


@pytest.mark.spec("engine-27")
async def test_an_interrupted_copy_is_made_again(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await filled(source)
        history = (await source.audit(limit=1000))[::-1]
        await target.import_settings(audit=history[:2])
        await target.import_tasks((await all_of(source))[:3])

        await copy(source, target, actor="ann")
        await copy(source, target, actor="ann")

        assert await difference(source, target) is None
        assert await target.counts() == await source.counts()
        assert (await target.audit(limit=1000))[::-1][: len(history)] == history


async def test_a_target_with_other_tasks_is_refused(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await enqueued(source)
        await enqueued(target)

        with pytest.raises(CannotCopy, match="the target is not empty"):
            await copy(source, target, actor="ann")

        assert len(await (await node(source)).claim()) == 1  # it was not even paused


async def test_a_target_with_a_history_is_refused(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await capacity(target, "narrow", 1)

        with pytest.raises(CannotCopy, match="the target is not empty"):
            await copy(source, target, actor="ann")


async def test_a_source_at_work_is_refused(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await running(source, await node(source, "busy-one"))

        with pytest.raises(CannotCopy, match="workers are running on the source: busy-one"):
            await copy(source, target, actor="ann")

        assert not any((await target.counts()).values())


async def test_a_yard_is_not_copied_onto_itself(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[0]) as target:
        await enqueued(source)

        with pytest.raises(CannotCopy, match="the same yard"):
            await copy(source, target, actor="ann")


async def test_a_target_at_work_is_refused(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await node(target)

        with pytest.raises(CannotCopy, match=r"running on the target|is not empty"):
            await copy(source, target, actor="ann")


async def test_a_copy_can_wait_until_the_source_is_quiet(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        worker = await node(source)
        task = await running(source, worker)
        copying = asyncio.create_task(copy(source, target, actor="ann", wait=True))
        while (await worker.ask()).refused != "the yard is paused":
            pass  # the copy goes on meanwhile
        await complete(source, task)
        await source.retire(worker.lease)

        assert (await copying)[State.COMPLETED] == 1
