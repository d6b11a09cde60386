"""What may be done to a paused task, and what cannot be paused or resumed."""

from __future__ import annotations

import pytest

from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.store.port import Store
from tests.conformance.verbs import audited, complete, enqueued, node, running


@pytest.mark.spec("engine-25", "lifecycle-4")
async def test_a_paused_task_can_be_prioritized(store: Store) -> None:
    worker = await node(store)
    first, second = await enqueued(store), await enqueued(store)
    await store.pause(second, actor="ann")
    await store.prioritize(second, 1, actor="ann")
    await store.resume(second, actor="ann")

    assert await worker.claim_ids(10) == [second, first]


@pytest.mark.spec("engine-6", "engine-25")
async def test_what_cannot_be_paused_or_resumed_is_refused(store: Store) -> None:
    waiting = await enqueued(store, delay=60)
    with pytest.raises(IllegalTransition, match="is pending and cannot become"):
        await store.resume(waiting, actor="ann")
    await store.pause(waiting, actor="ann")
    with pytest.raises(IllegalTransition, match="is paused and cannot become paused"):
        await store.pause(waiting, actor="ann")
    task = await running(store, await node(store))
    with pytest.raises(IllegalTransition, match="is running and cannot become"):
        await store.resume(task.id, actor="ann")
    await complete(store, task)
    for verb in (store.pause, store.resume):
        with pytest.raises(IllegalTransition, match="is completed and cannot become"):
            await verb(task.id, actor="ann")
        with pytest.raises(NotFound, match="nobody"):
            await verb("nobody", actor="ann")

    assert await audited(store, "resume") == []
    assert [detail for *_, detail in await audited(store, "pause")] == ["paused"]
