"""What a claim costs on SQLite."""

from __future__ import annotations

import pytest

from taskyard.store.sqlite import claim
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.verbs import new, node


@pytest.mark.spec("engine-12", "engine-11")
async def test_what_may_not_be_claimed_ahead_is_not_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SqliteStore(":memory:")
    worker = await node(store, slots=10)
    await store.enqueue([new(keys=(f"key:{n}",)) for n in range(500)])
    rounds, one_round = 0, claim._Search._round

    def counted(self: claim._Search) -> bool:
        nonlocal rounds
        rounds += 1
        return one_round(self)

    monkeypatch.setattr(claim._Search, "_round", counted)

    answer = await worker.ask(5, ahead=50)

    assert (len(answer.tasks), answer.ahead) == (5, frozenset())
    assert rounds == 2  # one that fills the slots, one that finds nothing for the reserve
    await store.close()
