"""A copy takes nobody for dead who may be at work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from taskyard.domain.errors import CannotCopy
from taskyard.domain.node import Node
from taskyard.domain.state import State
from taskyard.store import standstill
from taskyard.store.copy import copy
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.test_namespaces import opened
from tests.conformance.verbs import LEASE_SECONDS, complete, node, running
from tests.servers.urls import fresh_url

FROZEN = LEASE_SECONDS + 10


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(fresh_url("sqlite", tmp_path)) as store:
        yield store


class Looked:
    """The store, where something happens before each look at its nodes."""

    def __init__(self, store: Store, happens: Callable[[int], Awaitable[None]]) -> None:
        self._store = store
        self._happens = happens
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def nodes(self) -> list[Node]:
        self.looks += 1
        await self._happens(self.looks)
        return await self._store.nodes()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time between two looks is that of the test."""
    monkeypatch.setattr(standstill, "LOOK_SECONDS", 0.0)


@pytest.mark.spec("engine-20", "engine-27")
async def test_a_store_that_was_frozen_kills_nobody(
    store: Store, time: StoreTime, target: Store
) -> None:
    worker = await node(store, "quiet-one")
    task = await running(store, worker)
    await time.advance(FROZEN)

    with pytest.raises(CannotCopy, match=r"quiet-one .* --wait"):
        await copy(store, target, actor="ann")

    assert not worker.beat().lost
    await complete(store, task)


@pytest.mark.spec("engine-20", "engine-27")
async def test_a_store_that_freezes_while_a_copy_waits_kills_nobody(
    store: Store, time: StoreTime, target: Store
) -> None:
    worker = await node(store)
    task = await running(store, worker)

    async def happens(look: int) -> None:
        await time.advance(FROZEN if look == 8 else LEASE_SECONDS / 6)
        if look in (9, 10):
            assert not worker.beat().lost
        elif look < 8:
            worker.beat()
        elif look == 11:
            await complete(store, task)
            await store.retire(worker.lease)

    source = Looked(store, happens)
    counts = await copy(cast("Store", source), target, actor="ann", wait=True)

    assert counts[State.COMPLETED] == 1
    assert source.looks == 11


@pytest.mark.spec("engine-20", "engine-27")
async def test_who_is_not_heard_of_for_a_lease_of_contact_is_dead(
    store: Store, time: StoreTime, target: Store
) -> None:
    await running(store, await node(store))
    await time.advance(FROZEN)

    async def happens(look: int) -> None:
        await time.advance(LEASE_SECONDS / 6)

    source = Looked(store, happens)
    counts = await copy(cast("Store", source), target, actor="ann", wait=True)

    assert counts[State.QUEUED] == 1
    assert source.looks >= 7  # the first begins a lease of contact


@pytest.mark.spec("engine-20", "engine-27")
async def test_who_is_proven_dead_is_not_waited_for(store: Store, target: Store) -> None:
    worker = await node(store)
    await running(store, worker)

    counts = await copy(store, target, actor="ann", proven_dead=lambda _: [worker.lease])

    assert counts[State.QUEUED] == 1
