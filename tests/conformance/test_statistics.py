"""Figures by the hour that are only ever added to, and what nodes say they use."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest

from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.node import Usage
from taskyard.domain.retention import Retention
from taskyard.domain.statistics import HOUR, RUN, RUN_SUM, Count
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.pruning import prune_all
from tests.conformance.verbs import complete, node, running


async def tallied(store: Store, since: Instant = 0) -> list[Count]:
    return sorted(await store.tallied(since), key=msgspec.structs.astuple)


async def to_the_next_hour(store: Store, time: StoreTime) -> Instant:
    """Move to the first instant of an hour."""
    now = await store.now()
    await time.advance((HOUR - now % HOUR) / SECOND)
    return await store.now()


@pytest.mark.spec("lifecycle-16")
async def test_what_is_added_is_summed_up(store: Store, elsewhere: Store) -> None:
    assert await store.tallied(0) == []
    await store.tally(
        [Count("work", "default", "completed", 2), Count("mail", "slow", "failed", 1)]
    )
    await elsewhere.tally(
        [Count("work", "default", "completed", 3), Count("work", "slow", "completed", 7)]
    )

    assert await tallied(store) == [
        Count("mail", "slow", "failed", 1),
        Count("work", "default", "completed", 5),
        Count("work", "slow", "completed", 7),
    ]


@pytest.mark.spec("lifecycle-16")
async def test_the_same_thing_twice_in_one_call_is_added_twice(store: Store) -> None:
    await store.tally([Count("work", "default", RUN, 1, bucket=4)] * 3)

    assert await store.tallied(0) == [Count("work", "default", RUN, 3, bucket=4)]


@pytest.mark.spec("lifecycle-16")
async def test_each_class_of_times_is_counted_for_itself(store: Store) -> None:
    counts = [Count("work", "default", RUN, n, bucket=n - 1) for n in (1, 2, 3, 40)]
    long = Count("work", "default", RUN_SUM, 10**12)

    await store.tally([*counts, long])
    await store.tally([long])

    assert await tallied(store) == [*counts, msgspec.structs.replace(long, n=2 * 10**12)]


@pytest.mark.spec("lifecycle-16")
async def test_nothing_added_is_no_mistake(store: Store) -> None:
    await store.tally([])

    assert await store.tallied(0) == []


@pytest.mark.spec("lifecycle-16")
async def test_figures_are_kept_by_the_hour(store: Store, time: StoreTime) -> None:
    hour = await to_the_next_hour(store, time)
    one = Count("work", "default", "completed", 1)
    for _ in range(3):
        await store.tally([one])
        await time.advance(3600)
    sums = {
        since: sum(count.n for count in await store.tallied(since))
        for since in (0, hour, hour + HOUR - 1, hour + HOUR, hour + 2 * HOUR + 5, hour + 3 * HOUR)
    }

    assert list(sums.values()) == [3, 3, 3, 2, 1, 0]
    assert len(await store.tallied(hour)) == 1  # summed up over the hours


@pytest.mark.spec("lifecycle-16")
async def test_nothing_is_lost_when_many_add_at_once(store: Store, elsewhere: Store) -> None:
    counts = [Count("work", "default", what, 1) for what in ("completed", "failed", "retried")]

    await asyncio.gather(
        *((store, elsewhere)[at % 2].tally(counts[at % 3 :] + counts[: at % 3]) for at in range(40))
    )

    assert {count.what: count.n for count in await store.tallied(0)} == {
        "completed": 40,
        "failed": 40,
        "retried": 40,
    }


@pytest.mark.spec("lifecycle-16", "lifecycle-15")
async def test_old_figures_are_pruned(store: Store, time: StoreTime) -> None:
    await to_the_next_hour(store, time)
    one = Count("work", "default", "completed", 1)
    for _ in range(3):
        await store.tally([one])
        await time.advance(3600)
    keep = Retention(statistics=timedelta(hours=2))
    mark = None
    while True:
        step = await store.prune(keep, actor="ann", after=mark)
        mark = step.mark
        assert step.tasks == 0
        if mark is None:
            break

    assert [count.n for count in await store.tallied(0)] == [2]


@pytest.mark.spec("lifecycle-16", "lifecycle-15")
async def test_a_dry_run_leaves_the_figures(store: Store, time: StoreTime) -> None:
    await store.tally([Count("work", "default", "completed", 1)])
    await time.advance(3 * 3600)
    keep = Retention(statistics=timedelta(hours=1))
    step = await store.prune(keep, actor="ann", dry_run=True)
    while step.mark is not None:
        step = await store.prune(keep, actor="ann", after=step.mark, dry_run=True)

    assert len(await store.tallied(0)) == 1


@pytest.mark.spec("lifecycle-16")
async def test_figures_outlive_their_tasks(store: Store) -> None:
    await complete(store, await running(store, await node(store)))
    await store.tally([Count("work", "default", "completed", 1)])

    assert await prune_all(store) == 1

    assert len(await store.tallied(0)) == 1


# --- what a node uses ---


@pytest.mark.spec("lifecycle-16")
async def test_a_beat_tells_what_the_node_uses(store: Store, elsewhere: Store) -> None:
    worker, other = await node(store), await node(store, "node-b")
    usage = Usage(cpu=1.25, memory=3 * 10**9, read_bytes=10**12, written_bytes=7, processes=3)

    news = store.beat(worker.lease, timeout=10, usage=usage)

    assert not news.lost
    assert {one.id: one.usage for one in await elsewhere.nodes()} == {
        "node-a": usage,
        "node-b": None,
    }
    assert not other.beat().lost


@pytest.mark.spec("lifecycle-16")
async def test_a_beat_without_it_leaves_what_was_told(store: Store) -> None:
    worker = await node(store)
    usage = Usage(cpu=0.5, memory=10**6)
    store.beat(worker.lease, timeout=10, usage=usage)
    worker.beat()
    [kept] = await store.nodes()
    assert kept.usage == usage

    later = msgspec.structs.replace(usage, cpu=0.75, processes=2)
    store.beat(worker.lease, timeout=10, usage=later)

    [kept] = await store.nodes()
    assert kept.usage == later


@pytest.mark.spec("lifecycle-16")
async def test_a_new_incarnation_has_told_nothing(store: Store) -> None:
    worker = await node(store)
    store.beat(worker.lease, timeout=10, usage=Usage(cpu=0.5, memory=10**6))
    again = await node(store)

    assert {one.lease: one.usage is None for one in await store.nodes()} == {
        worker.lease: False,
        again.lease: True,
    }
