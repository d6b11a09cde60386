"""A caller that would rather not wait for a key is told so instead."""

from __future__ import annotations

import pytest

from taskyard.domain.rate import Rate
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, Enqueued, Refused
from taskyard.store.port import Store
from tests.conformance.verbs import (
    change,
    complete,
    enqueued,
    limit,
    new,
    node,
    refusal,
    refused_as_duplicate,
    running,
)


@pytest.mark.spec("engine-15")
async def test_a_task_that_would_wait_for_a_key_is_refused(store: Store) -> None:
    task = await running(store, await node(store), keys=("a", "b"))

    assert await refusal(store, keys=("x", "b"), refuse_if_held=True) == "key b is held"

    await complete(store, task)
    await enqueued(store, keys=("x", "b"), refuse_if_held=True)


@pytest.mark.spec("engine-15")
async def test_only_who_holds_a_key_keeps_others_out(store: Store) -> None:
    await enqueued(store, keys=("k",))  # it waits for a node

    await enqueued(store, keys=("k",), refuse_if_held=True)
    await enqueued(store, refuse_if_held=True)


@pytest.mark.spec("engine-15", "engine-3")
async def test_a_key_with_room_for_more_is_not_held(store: Store) -> None:
    worker = await node(store)
    await limit(store, "k", 2)
    await running(store, worker, keys=("k",))
    await running(store, worker, keys=("k",), refuse_if_held=True)

    assert await refusal(store, keys=("k",), refuse_if_held=True) == "key k is held"
    await limit(store, "closed", 0)
    assert await refusal(store, keys=("closed",), refuse_if_held=True) == "key closed is held"


@pytest.mark.spec("engine-15", "engine-3")
async def test_a_rate_holds_no_key(store: Store) -> None:
    await store.set_key_rule("k", 5, rate=Rate(1, 60.0), actor="ann")
    await running(store, await node(store), keys=("k",))

    await enqueued(store, keys=("k",), refuse_if_held=True)


@pytest.mark.spec("engine-15")
async def test_a_task_for_later_is_refused_too(store: Store) -> None:
    await running(store, await node(store), keys=("k",))

    assert await refusal(store, keys=("k",), delay=60, refuse_if_held=True) == "key k is held"


@pytest.mark.spec("engine-15")
async def test_the_others_of_the_call_are_saved(store: Store) -> None:
    await running(store, await node(store), keys=("k",))
    tasks = [new(keys=("k",)), new(keys=("k",), refuse_if_held=True), new()]

    answers = await store.enqueue(tasks)

    assert answers == [Enqueued(tasks[0].id), Refused("key k is held"), Enqueued(tasks[2].id)]
    assert (await store.counts())[State.QUEUED] == 2


@pytest.mark.spec("engine-15", "engine-3")
async def test_what_else_stands_in_the_way_is_told_first(store: Store) -> None:
    await running(store, await node(store), keys=("k",))
    known = await enqueued(store, dedup=Dedup("nightly"), keys=("k",))
    options = {"keys": ("k",), "refuse_if_held": True}

    assert await refused_as_duplicate(store, id=known, **options) == known
    assert await refused_as_duplicate(store, dedup=Dedup("nightly"), **options) == known
    await change(store, "short", max_depth=0)
    assert "lane short is full" in await refusal(store, lane="short", **options)


@pytest.mark.spec("engine-15")
async def test_what_is_refused_keeps_no_dedup_key(store: Store) -> None:
    await running(store, await node(store), keys=("k",))
    await refusal(store, keys=("k",), refuse_if_held=True, dedup=Dedup("nightly"))

    await enqueued(store, dedup=Dedup("nightly"))
