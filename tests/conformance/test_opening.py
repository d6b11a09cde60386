"""Opening and closing a store."""

from __future__ import annotations

import pytest

from taskyard.domain.errors import StoreUnavailable
from taskyard.store.port import Store
from tests.conformance.verbs import enqueued, seen


@pytest.mark.spec("engine-27")
async def test_a_store_that_was_closed_can_be_opened_again(store: Store) -> None:
    task_id = await enqueued(store)
    await store.close()
    await store.close()
    await store.open()

    assert (await seen(store, task_id)).id == task_id


@pytest.mark.spec("engine-27")
async def test_a_closed_store_says_so(store: Store) -> None:
    await store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await enqueued(store)
