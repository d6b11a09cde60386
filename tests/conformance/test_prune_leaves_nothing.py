"""After pruning a store is as it was before: nothing of a task is left behind anywhere."""

from __future__ import annotations

import pytest

from taskyard.store.port import Store
from tests.conformance.places import Place
from tests.conformance.pruning import ENDS, census, live_and_end, prune_all


@pytest.mark.spec("lifecycle-15", "engine-30")
@pytest.mark.parametrize("limit", [7, 500])
async def test_nothing_is_left_of_pruned_tasks(store: Store, place: Place, limit: int) -> None:
    await live_and_end(store)  # lanes, routes and queues stay: they are as many as there are names
    await prune_all(store)
    before = await census(store, place)
    await live_and_end(store)
    full = await census(store, place)
    assert sum(full.values()) > sum(before.values()) + 3 * ENDS

    assert await prune_all(store, limit) == ENDS

    assert await census(store, place) == before
