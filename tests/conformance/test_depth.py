"""A lane with a max depth refuses what would wait beyond it."""

from __future__ import annotations

import asyncio

import pytest

from taskyard.domain.errors import InvalidOption
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Duplicate, Enqueued, Refused
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    audited,
    change,
    complete,
    enqueued,
    failed,
    finish,
    lane_of,
    new,
    node,
    refusal,
    refused_as_duplicate,
    released,
    running,
)


@pytest.mark.spec("engine-3")
async def test_beyond_the_max_depth_a_task_is_refused(store: Store) -> None:
    assert (await change(store, "short", max_depth=2)).max_depth == 2
    await enqueued(store, lane="short")
    await enqueued(store, lane="short", delay=60)  # pending ones count too

    reason = await refusal(store, lane="short")

    assert reason == "lane short is full: 2 tasks wait, and its max depth is 2"
    lane = await lane_of(store, "short")
    assert (lane.queued, lane.pending, lane.max_depth) == (1, 1, 2)


@pytest.mark.spec("engine-3", "engine-15")
async def test_the_others_of_the_call_are_saved(store: Store) -> None:
    await change(store, "short", max_depth=2)
    tasks = [new(lane=lane) for lane in ("short", "wide", "short", "short", "wide")]

    answers = await store.enqueue(tasks)

    full = Refused("lane short is full: 2 tasks wait, and its max depth is 2")
    assert answers == [full if at == 3 else Enqueued(t.id) for at, t in enumerate(tasks)]
    assert await store.get(tasks[3].id) is None
    assert (await store.counts())[State.QUEUED] == 4


@pytest.mark.spec("engine-3")
async def test_what_runs_is_paused_or_has_ended_does_not_count(store: Store) -> None:
    await change(store, "short", max_depth=1)
    worker = await node(store)
    await complete(store, await running(store, worker, lane="short"))
    await running(store, worker, lane="short")
    await store.pause(await enqueued(store, lane="short"), actor="ann")
    await store.cancel(await enqueued(store, lane="short"), actor="ann")

    await enqueued(store, lane="short")

    assert "is full" in await refusal(store, lane="short")


@pytest.mark.spec("engine-3")
async def test_a_task_that_was_accepted_comes_back_however_full_it_is(
    store: Store, time: StoreTime
) -> None:
    await change(store, "short", max_depth=1)
    worker = await node(store)
    tasks = [await running(store, worker, lane="short") for _ in range(3)]
    await enqueued(store, lane="short", delay=5)
    await finish(store, failed(tasks[0]), released(tasks[1]), failed(tasks[2], delay=5))
    await time.advance(6)
    await store.promote()

    assert (await lane_of(store, "short")).queued == 4
    assert "is full" in await refusal(store, lane="short")


@pytest.mark.spec("engine-3")
async def test_a_max_depth_of_0_closes_a_lane_and_none_opens_it(store: Store) -> None:
    await change(store, "short", max_depth=0)
    reason = await refusal(store, lane="short")
    assert reason == "lane short is full: 0 tasks wait, and its max depth is 0"

    await change(store, "short", max_depth=None)

    for _ in range(3):
        await enqueued(store, lane="short")


@pytest.mark.spec("engine-3")
async def test_a_max_depth_that_is_lowered_refuses_until_enough_have_gone(store: Store) -> None:
    worker = await node(store)
    for _ in range(3):
        await enqueued(store, lane="short")
    await change(store, "short", max_depth=2)
    for _ in range(2):
        assert "and its max depth is 2" in await refusal(store, lane="short")
        await worker.claim_one()

    await enqueued(store, lane="short")


@pytest.mark.spec("engine-3", "engine-15")
async def test_what_is_known_already_is_told_first(store: Store) -> None:
    await change(store, "short", max_depth=1)
    known = await enqueued(store, lane="short", dedup=Dedup("nightly"))

    assert await refused_as_duplicate(store, lane="short", id=known) == known
    assert await refused_as_duplicate(store, lane="short", dedup=Dedup("nightly")) == known


@pytest.mark.spec("engine-3", "engine-15")
async def test_what_is_refused_keeps_no_dedup_key(store: Store) -> None:
    await change(store, "short", max_depth=0)
    await refusal(store, lane="short", dedup=Dedup("nightly"))

    await enqueued(store, dedup=Dedup("nightly"))


@pytest.mark.spec("engine-3", "engine-16")
async def test_what_was_refused_can_be_tried_again(store: Store) -> None:
    await change(store, "short", max_depth=0)
    task = new(lane="short")
    [answer] = await store.enqueue([task])
    assert isinstance(answer, Refused)
    await change(store, "short", max_depth=1)

    assert await store.enqueue([task]) == [Enqueued(task.id)]
    assert await store.enqueue([task]) == [Duplicate(task.id)]


@pytest.mark.spec("engine-3")
async def test_the_max_depth_is_exact_however_many_enqueue_at_once(
    store: Store, elsewhere: Store
) -> None:
    await change(store, "short", max_depth=25)
    calls = [
        (store, elsewhere)[at % 2].enqueue([new(lane="short") for _ in range(3)])
        for at in range(20)
    ]

    answers = [answer for call in await asyncio.gather(*calls) for answer in call]

    assert sum(isinstance(answer, Enqueued) for answer in answers) == 25
    assert (await lane_of(store, "short")).queued == 25


@pytest.mark.spec("engine-3", "lifecycle-17")
async def test_a_max_depth_is_written_down(store: Store) -> None:
    await change(store, "short", max_depth=2)
    await change(store, "short", max_depth=None)

    assert await audited(store, "set_max_depth") == [
        ("ann", "set_max_depth", "lane:short", "2"),
        ("ann", "set_max_depth", "lane:short", "None"),
    ]


@pytest.mark.spec("engine-3")
async def test_a_max_depth_is_a_number(store: Store) -> None:
    with pytest.raises(InvalidOption, match="not -1"):
        await change(store, "short", max_depth=-1)
