from __future__ import annotations

import pytest

from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import node


@pytest.mark.spec("engine-26")
async def test_one_does_a_duty_at_a_time(store: Store, elsewhere: Store) -> None:
    one, other = await node(store, "node-a"), await node(elsewhere, "node-b")

    assert await store.take_duty("rescue", one.lease, 10)
    assert not await elsewhere.take_duty("rescue", other.lease, 10)


@pytest.mark.spec("engine-26")
async def test_different_duties_may_be_done_by_different_nodes(store: Store) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")

    assert await store.take_duty("rescue", one.lease, 10)
    assert await store.take_duty("promote", other.lease, 10)


@pytest.mark.spec("engine-26")
async def test_a_duty_passes_on_when_its_time_is_over(store: Store, time: StoreTime) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    await store.take_duty("rescue", one.lease, 10)
    await time.advance(9)
    assert not await store.take_duty("rescue", other.lease, 10)
    await time.advance(2)

    assert await store.take_duty("rescue", other.lease, 10)
    assert not await store.take_duty("rescue", one.lease, 10)


@pytest.mark.spec("engine-26")
async def test_the_one_who_does_it_may_go_on(store: Store, time: StoreTime) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    for _ in range(3):
        assert await store.take_duty("rescue", one.lease, 10)
        await time.advance(9)

    assert not await store.take_duty("rescue", other.lease, 10)


@pytest.mark.spec("engine-26")
async def test_a_duty_is_free_when_its_node_retires(store: Store) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    await store.take_duty("rescue", one.lease, 1000)

    await store.retire(one.lease)

    assert await store.take_duty("rescue", other.lease, 10)


@pytest.mark.spec("engine-26", "engine-20")
async def test_a_duty_is_free_when_its_node_is_rescued(store: Store) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    await store.take_duty("rescue", one.lease, 1000)

    await store.rescue([one.lease])

    assert await store.take_duty("rescue", other.lease, 10)
