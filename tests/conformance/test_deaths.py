"""A body that died alone, in a process of its own: ended by its worker, counted as a loss."""

from __future__ import annotations

import pytest

from taskyard.domain.outcome import Died, decide
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.state import Reason, State
from taskyard.store.port import Store
from tests.conformance.verbs import BROKEN, enqueued, finish, node, seen

AT_ONCE = RetryPolicy(retries=9)


@pytest.mark.spec("engine-22")
async def test_deaths_are_kept_with_the_task_until_they_are_poison(store: Store) -> None:
    worker = await node(store)
    task_id = await enqueued(store, max_charged=10)
    for losses, state in ((0, State.QUEUED), (1, State.QUEUED), (2, State.FAILED)):
        [claimed] = await worker.claim(1)
        await finish(store, decide(claimed, Died(BROKEN, losses), AT_ONCE))
        kept = await seen(store, task_id)
        assert (kept.state, kept.charged, kept.losses) == (state, losses + 1, losses + 1)
    assert kept.reason is Reason.POISON
    assert [(f.reason, f.error) for f in kept.failures] == [
        (Reason.LOST, BROKEN),
        (Reason.LOST, BROKEN),
        (Reason.POISON, BROKEN),
    ]
    audit = await store.audit(limit=10, before=None)
    mine = [each.action for each in audit if each.subject == f"task:{task_id}"]
    assert sorted(mine) == ["lost", "lost", "poison"]
