"""What stands in the way of a task is looked at in one order: its id, its dedup key, what it
depends on, its lane, its keys. A task that is given up when it is saved waits for nothing, so
neither lane nor keys refuse it.
"""

from __future__ import annotations

import pytest

from taskyard.domain.state import Reason, State
from taskyard.domain.task import Dedup
from taskyard.store.port import Store
from tests.conformance.pruning import prune_all
from tests.conformance.verbs import (
    change,
    complete,
    enqueued,
    new,
    node,
    refused_as_duplicate,
    running,
    state_of,
)


@pytest.mark.spec("engine-17", "engine-15")
async def test_a_clash_is_told_before_a_name_nobody_has(store: Store) -> None:
    first = await enqueued(store, dedup=Dedup("nightly"))

    found = await refused_as_duplicate(store, dedup=Dedup("nightly"), depends_on=("nobody",))

    assert found == first


@pytest.mark.spec("engine-16", "engine-17")
async def test_a_repeated_enqueue_is_known_though_its_dependency_was_pruned(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker)
    await complete(store, first)
    task = new(depends_on=(first.id,))
    await store.enqueue([task])
    dependent = await worker.claim_one()
    await complete(store, dependent)
    later = new(id="later", depends_on=(task.id,))
    await store.enqueue([later])
    await prune_all(store)
    assert await store.get(first.id) is None

    again = await refused_as_duplicate(store, id="later", depends_on=(first.id,))

    assert again == "later"


@pytest.mark.spec("engine-17", "engine-3")
async def test_a_full_lane_has_room_for_what_is_given_up_at_once(store: Store) -> None:
    ended = await enqueued(store)
    await store.cancel(ended, actor="ann")
    await change(store, "short", max_depth=0)

    task_id = await enqueued(store, lane="short", depends_on=(ended,))

    assert await state_of(store, task_id) == (State.CANCELLED, Reason.DEPENDENCY)


@pytest.mark.spec("engine-17", "engine-15")
async def test_a_held_key_does_not_concern_what_is_given_up_at_once(store: Store) -> None:
    ended = await enqueued(store)
    await store.cancel(ended, actor="ann")
    await running(store, await node(store), keys=("k",))

    task_id = await enqueued(store, keys=("k",), refuse_if_held=True, depends_on=(ended,))

    assert await state_of(store, task_id) == (State.CANCELLED, Reason.DEPENDENCY)
