"""A yard goes on in another store as it was: every pair of stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.cron import Cron, Ticks
from taskyard.domain.errors import CannotCopy
from taskyard.domain.lane import Order
from taskyard.domain.logs import Level, LogPage, NewLine
from taskyard.domain.moved import Moved
from taskyard.domain.rate import Rate
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Duplicate, Enqueued, OnFailure, Progress, Until
from taskyard.store import copy as store_copy
from taskyard.store.copy import copy, difference, pages
from taskyard.store.port import Store, YardPause
from tests.conformance.pruning import prune_all
from tests.conformance.test_namespaces import opened
from tests.conformance.verbs import (
    Worker,
    capacity,
    change,
    complete,
    enqueued,
    failed,
    hold,
    limit,
    new,
    node,
    pause,
    paused,
    released,
    running,
    state_of,
    succeeded,
)
from tests.servers.urls import STORES, lent_url

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PAIRS = [(one, other) for one in STORES for other in STORES]


@pytest.fixture(params=PAIRS, ids=[f"{one}-to-{other}" for one, other in PAIRS])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Store, Store]]:
    one, other = request.param
    async with AsyncExitStack() as stack:
        urls = [stack.enter_context(lent_url(kind, tmp_path)) for kind in (one, other)]
        source, target = [await stack.enter_async_context(opened(url)) for url in urls]
        yield source, target


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
    now = await store.now()
    await change(store, "later", paused=True, paused_until=now + 10**12, max_depth=7)
    await change(store, "aged", ageing=60, rate=Rate(5, 2.0, 3))
    await store.set_key_rule("api:*", 9, rate=Rate(10, 1.0, 5), actor="ann")
    nightly = Cron(name="nightly", schedule="0 2 * * *", task=new(id="pattern", lane="narrow"))
    await store.set_cron(nightly, now + 10**11, actor="ann")
    await store.set_cron(msgspec.structs.replace(nightly, name="ended"), 5, actor="ann")
    await store.fire_cron("ended", 5, [], Ticks((5,), None))


async def ended(store: Store, worker: Worker) -> None:
    task = await running(store, worker, id="completed", dedup=Dedup("free"), keys=("host:a",))
    await store.report(hold(task), Progress(3, 7, "half ☃"))
    said = NewLine(1, 5, Level.INFO, "begun"), NewLine(4, 0, Level.ERROR, "it's 50 % ☃")
    await store.append_logs([LogPage(hold(task), said)])
    await store.finish([succeeded(task, '{"answer": "it\'s 42 %"}')])
    task = await running(store, worker, id="failed", requires=("gpu",), timeout=1.5, trace=TRACE)
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
    await enqueued(
        store, id="later", run_at=now + 10**12, group="tenant", lane="narrow", trace=TRACE
    )
    await enqueued(store, id="first", payload='{"n": 1}', keys=("k",))
    held = await worker.claim_one()
    await enqueued(store, id="second", keys=("k", "l"), deadline=now + 10**11)
    await enqueued(store, id="third", dedup=Dedup("kept"), max_charged=9)
    await enqueued(store, id="urgent", priority=9)
    await store.prioritize("urgent", 1, actor="ann")
    await store.finish([failed(held)])  # goes to the back, as "first"
    await dependent(store)


async def dependent(store: Store) -> None:
    """Tasks that wait for others, and one that waits for its operator."""
    worker = await node(store, "apart", kinds=("apart",))
    task = await running(store, worker, kind="apart", id="interrupted")
    await store.checkpoint(hold(task), '{"page": "☃"}')
    await store.finish([paused(task)])
    await store.retire(worker.lease)
    others = ("completed", "later", "interrupted")
    await enqueued(store, id="gathers", depends_on=others)
    await enqueued(store, id="waits", depends_on=("gathers",), on_failure=OnFailure.RUN)
    await enqueued(store, id="given up", depends_on=("failed",))


async def all_of(store: Store) -> list[Moved]:
    return [moved async for page in pages(store) for moved in page]


@pytest.mark.spec("engine-27", "engine-1")
async def test_tasks_are_the_same_in_the_other_store(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await filled(source)

    there = await all_of(source)
    await target.import_tasks(there[::-1])
    await target.import_tasks(there[::-1])  # as after a lost answer

    assert await all_of(target) == there
    assert {moved.task.state for moved in there} == set(State) - {State.RUNNING}
    assert {m.task.id: m.task.waits_for for m in there if m.task.depends_on} == {
        "gathers": 2,
        "waits": 1,
        "given up": 0,
    }
    assert {m.task.dedup for m in there if m.dedup_kept} == {"kept"}
    assert any(m.task.failures for m in there)
    assert {m.task.id for m in there if m.task.trace == TRACE} == {"failed", "later"}
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
    assert await target.crons() == await source.crons() != []
    assert await target.task_logs("completed") == await source.task_logs("completed") != []
    copied = await source.audit(limit=1000)
    assert (await target.audit(limit=1000))[-len(copied) :] == copied


@pytest.mark.spec("engine-27", "engine-3", "engine-8")
async def test_what_was_taken_of_a_rate_stays_taken(stores: tuple[Store, Store]) -> None:
    source, target = stores
    seldom = Rate(1, 3600.0, 2)
    await change(source, "slow", rate=seldom)
    await source.set_key_rule("api:*", 9, rate=seldom, actor="ann")
    await source.set_key_rule("gone", 9, rate=seldom, actor="ann")
    worker = await node(source)
    for options in ({"lane": "slow"}, {"keys": ("api:a",)}, {"keys": ("api:b", "gone")}):
        await complete(source, await running(source, worker, **options))
    await complete(source, await running(source, worker, keys=("api:a",)))
    await source.set_key_rule("gone", None, actor="ann")  # it is remembered all the same
    await source.retire(worker.lease)
    for options in ({"lane": "slow"}, {"keys": ("api:a",)}, {"keys": ("api:b",)}):
        for at in range(2):
            await enqueued(source, id=f"{options} {at}", **options)

    await copy(source, target, actor="ann")

    buckets = sorted(await source.buckets(), key=str)
    assert [bucket.name for bucket in buckets] == ["api:a", "api:b", "gone", "slow"]
    assert sorted(await target.buckets(), key=str) == buckets
    assert await target.promote() == await source.promote()  # when "api:a" opens
    started = await (await node(target)).claim_ids(10)
    assert sorted(started) == ["{'keys': ('api:b',)} 0", "{'lane': 'slow'} 0"]


async def test_pages_begin_small_and_grow_with_what_is_seen(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_copy, "PAGE_BYTES", 10_000)
    small, large = "{}", f'"{"x" * 3000}"'
    await store.enqueue([new(payload=payload) for payload in [small] * 30 + [large] * 10])

    # The newest come first: after the first look three large ones fill a page.
    assert [len(page) async for page in pages(store)] == [4, 3, 3, 3, 12, 15]


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


@pytest.mark.spec("engine-27", "engine-17", "engine-25")
async def test_what_waits_for_others_goes_on_waiting(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await filled(source)
    await copy(source, target, actor="ann")
    worker = await node(target, kinds=("work", "apart"))
    await target.cancel("later", actor="ann")
    assert (await state_of(target, "gathers"))[0] is State.CANCELLED
    assert (await state_of(target, "waits"))[0] is State.QUEUED
    await target.resume("interrupted", actor="ann")

    claimed = {task.id: task for task in await worker.claim(20)}

    assert "waits" in claimed
    assert claimed["interrupted"].checkpoint == '{"page": "☃"}'


@pytest.mark.spec("engine-27", "engine-17")
async def test_a_dependent_waits_on_for_those_it_waited_for(stores: tuple[Store, Store]) -> None:
    source, target = stores
    worker = await node(source)
    again = await running(source, worker, id="again")
    await enqueued(source, "other", id="other")
    needed = ("again", "other")
    await enqueued(source, id="gathers", depends_on=needed, on_failure=OnFailure.RUN)
    await source.finish([failed(again, retry=False)])
    await source.retry("again", actor="ann")  # "gathers" has seen it end and waits for it no more
    await source.retire(worker.lease)
    [waits] = (await source.explain("gathers")).waits
    assert waits.text.endswith(": other")

    await copy(source, target, actor="ann")

    assert (await target.explain("gathers")).waits == (waits,)
    await complete(target, await (await node(target)).claim_one())
    assert (await state_of(target, "gathers"))[0] is State.PENDING
    await complete(target, await (await node(target, kinds=("other",))).claim_one())
    assert (await state_of(target, "gathers"))[0] is State.QUEUED


@pytest.mark.spec("engine-27", "engine-17", "lifecycle-15")
async def test_what_is_depended_on_is_kept_in_the_other_store_too(
    stores: tuple[Store, Store],
) -> None:
    source, target = stores
    await filled(source)
    await copy(source, target, actor="ann")
    await prune_all(target)

    assert await target.get("completed") is not None  # "gathers" waits for it
    assert await target.get("revived") is None


@pytest.mark.spec("engine-27", "engine-9")
async def test_the_order_of_every_lane_is_the_same(stores: tuple[Store, Store]) -> None:
    source, target = stores
    for order in Order:
        await change(source, order, order=order)
    await change(source, "aged", ageing=1e-6)
    worker = await node(source)
    for lane in (*Order, "aged"):
        for group in "aaab":
            await enqueued(source, lane=lane, group=group)
        held = await worker.claim_one()
        for at, group in enumerate("cbacb"):
            await enqueued(source, lane=lane, group=group, priority=9 - at)
        await source.finish([released(held)])
    await source.retire(worker.lease)
    await orders(source)  # who of a group has which of its turns is settled when they start
    in_order = await orders(source)

    await copy(source, target, actor="ann")

    assert await orders(target) == in_order
    assert [lane.order for lane in await target.lanes()] == [
        lane.order for lane in await source.lanes()
    ]


async def orders(store: Store) -> dict[str, list[str]]:
    """What each lane starts, in order; everything is given back."""
    worker = await node(store, "looker", slots=100)
    started: dict[str, list[str]] = {}
    while tasks := await worker.claim(1):
        started.setdefault(tasks[0].lane, []).append(tasks[0].id)
    await store.retire(worker.lease)
    return started


@pytest.fixture(params=STORES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    with lent_url(request.param, tmp_path) as one, lent_url(request.param, tmp_path) as other:
        yield one, other


@pytest.mark.spec("engine-27")
async def test_an_interrupted_copy_is_made_again(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await filled(source)
        history = (await source.audit(limit=1000))[::-1]
        await target.import_settings(audit=history[:2])
        await target.import_tasks((await all_of(source))[:-4:-1])  # the oldest

        await copy(source, target, actor="ann")
        await copy(source, target, actor="ann")

        assert await difference(source, target) is None
        assert await target.counts() == await source.counts()
        assert (await target.audit(limit=1000))[::-1][: len(history)] == history
        assert await target.yard_paused() is None  # it was a copy that paused the source


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
        assert await source.yard_paused() is None


async def test_a_yard_is_not_copied_onto_itself(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[0]) as target:
        await enqueued(source)

        with pytest.raises(CannotCopy, match="the same yard"):
            await copy(source, target, actor="ann")

        assert await source.yard_paused() is None


@pytest.mark.parametrize("seconds", [None, 3600])
async def test_a_refused_copy_leaves_a_paused_yard_paused(
    pair: tuple[str, str], seconds: int | None
) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        pause = await paused_for(source, seconds)
        await node(source)

        with pytest.raises(CannotCopy):
            await copy(source, target, actor="ann")

        assert await source.yard_paused() == pause


@pytest.mark.spec("engine-27")
@pytest.mark.parametrize("seconds", [None, 3600])
async def test_a_yard_that_was_paused_goes_on_as_a_paused_one(
    pair: tuple[str, str], seconds: int | None
) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        pause = await paused_for(source, seconds)
        worker = await node(source)
        with pytest.raises(CannotCopy):
            await copy(source, target, actor="ann")
        await source.retire(worker.lease)

        for _ in range(2):  # the second finds what an interrupted one leaves
            await copy(source, target, actor="ann")

        assert await target.yard_paused() == pause
        assert await source.yard_paused() == YardPause(None)


@pytest.mark.spec("engine-27")
async def test_what_was_done_to_a_yard_behind_a_copy_counts(pair: tuple[str, str]) -> None:
    async with opened(pair[0]) as source, opened(pair[1]) as target:
        await paused_for(source, None)
        await copy(source, target, actor="ann")
        await source.pause_yard(False, actor="bob")

        await copy(source, target, actor="ann")

        assert await target.yard_paused() is None


async def paused_for(store: Store, seconds: int | None) -> YardPause:
    """The yard, by an operator, for so long."""
    until = None if seconds is None else await store.now() + seconds * SECOND
    await store.pause_yard(True, until=until, actor="bob")
    return YardPause(until)


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
