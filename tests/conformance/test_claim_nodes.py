"""Condition (e) of a claim: the node is ready, current, alive, has a slot and serves the route."""

from __future__ import annotations

import pytest

from taskyard.domain.node import NodeState
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import LEASE_SECONDS, complete, enqueued, node, running


@pytest.mark.spec("engine-8", "engine-24")
async def test_a_draining_node_claims_nothing_more(store: Store) -> None:
    worker = await node(store)
    await enqueued(store)
    await store.drain(worker.lease)

    assert await worker.refusal() == "this node is draining"


@pytest.mark.spec("engine-8")
async def test_an_older_incarnation_claims_nothing_more(store: Store) -> None:
    old = await node(store, "node-a")
    await enqueued(store)
    new = await node(store, "node-a")

    assert "newer incarnation" in await old.refusal()
    assert new.lease > old.lease
    assert len(await new.claim(1)) == 1


@pytest.mark.spec("engine-8")
async def test_a_node_of_another_name_supersedes_nobody(store: Store) -> None:
    one = await node(store, "node-a")
    await node(store, "node-b")
    task_id = await enqueued(store)

    assert await one.claim_ids() == [task_id]


@pytest.mark.spec("engine-8", "engine-20")
async def test_a_node_whose_lease_ran_out_claims_nothing(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    await enqueued(store)
    await time.advance(LEASE_SECONDS + 1)

    assert await worker.refusal() == "this lease has run out"


@pytest.mark.spec("engine-8", "engine-20")
async def test_a_rescued_lease_claims_nothing(store: Store) -> None:
    worker = await node(store)
    await enqueued(store)
    await store.rescue([worker.lease])

    assert await worker.refusal() == "this lease has ended"


@pytest.mark.spec("engine-8")
async def test_a_retired_lease_claims_nothing(store: Store) -> None:
    worker = await node(store)
    await enqueued(store)
    await store.retire(worker.lease)

    assert await worker.refusal() == "this lease has ended"


@pytest.mark.spec("engine-8")
async def test_a_node_takes_no_more_than_it_has_slots(store: Store) -> None:
    worker = await node(store, slots=2)
    waiting = [await enqueued(store) for _ in range(4)]

    first, second = await worker.claim(10)
    assert await worker.claim(10) == []
    await complete(store, first)

    assert await worker.claim_ids(10) == waiting[2:3]
    assert second.id == waiting[1]


@pytest.mark.spec("engine-8", "engine-11")
async def test_a_node_takes_no_more_than_it_asks_for(store: Store) -> None:
    worker = await node(store, slots=10)
    waiting = [await enqueued(store) for _ in range(4)]

    assert await worker.claim_ids(3) == waiting[:3]


@pytest.mark.spec("engine-8")
async def test_asking_for_nothing_gives_nothing(store: Store) -> None:
    worker = await node(store)
    await enqueued(store)

    assert await worker.claim(0) == []


@pytest.mark.spec("engine-8", "engine-4")
async def test_a_node_takes_only_the_kinds_it_runs(store: Store) -> None:
    worker = await node(store, kinds=("mail", "scan"))
    mail = await enqueued(store, "mail")
    await enqueued(store, "download")
    scan = await enqueued(store, "scan")

    assert await worker.claim_ids(10) == [mail, scan]


@pytest.mark.spec("engine-8", "engine-4")
async def test_a_node_without_a_required_capability_does_not_take_the_task(store: Store) -> None:
    plain = await node(store, "plain")
    able = await node(store, "able", capabilities=("gpu", "fast"))
    task_id = await enqueued(store, requires=("gpu",))

    assert await plain.claim(10) == []
    assert await able.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-8", "engine-4")
async def test_a_node_needs_every_required_capability(store: Store) -> None:
    half = await node(store, "half", capabilities=("gpu",))
    whole = await node(store, "whole", capabilities=("gpu", "fast", "big"))
    task_id = await enqueued(store, requires=("fast", "gpu"))

    assert await half.claim(10) == []
    assert await whole.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-4")
async def test_a_node_with_capabilities_also_takes_tasks_that_need_none(store: Store) -> None:
    able = await node(store, capabilities=("gpu",))
    task_id = await enqueued(store)

    assert await able.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-4")
async def test_what_is_required_may_be_named_in_any_order(store: Store) -> None:
    able = await node(store, capabilities=("a", "b"))
    one = await enqueued(store, requires=("a", "b"))
    other = await enqueued(store, requires=("b", "a"))

    assert await able.claim_ids(10) == [one, other]


@pytest.mark.spec("engine-4", "engine-8")
async def test_a_route_that_appears_after_the_node_registered_is_served(
    store: Store, elsewhere: Store
) -> None:
    worker = await node(store, kinds=("work", "late"), capabilities=("gpu",))
    kind = await enqueued(elsewhere, "late")
    capability = await enqueued(elsewhere, "late", requires=("gpu",))
    await enqueued(elsewhere, "late", requires=("tpu",))

    assert await worker.claim_ids(10) == [kind, capability]


@pytest.mark.spec("engine-4", "engine-8")
async def test_a_route_that_was_there_before_the_node_is_served(store: Store) -> None:
    task_id = await enqueued(store, "early", requires=("gpu",))
    worker = await node(store, kinds=("early",), capabilities=("gpu",))

    assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-4")
async def test_nodes_are_listed_as_they_registered(store: Store, time: StoreTime) -> None:
    worker = await node(
        store, "node-a", slots=3, capabilities=("gpu",), labels={"zone": "eu"}, lease_seconds=20
    )
    await running(store, worker)
    await time.advance(5)

    [listed] = await store.nodes()

    assert (listed.id, listed.lease, listed.state) == ("node-a", worker.lease, NodeState.READY)
    assert (listed.kinds, listed.capabilities, listed.labels) == (
        ("work",),
        ("gpu",),
        {"zone": "eu"},
    )
    assert (listed.slots, listed.running, listed.lease_seconds) == (3, 1, 20)
    assert 14 < listed.lease_left <= 15


@pytest.mark.spec("engine-4")
async def test_a_node_that_is_gone_is_not_listed(store: Store) -> None:
    retired, dead, draining = [await node(store, name) for name in ("a", "b", "c")]
    await store.retire(retired.lease)
    await store.rescue([dead.lease])
    await store.drain(draining.lease)

    [listed] = await store.nodes()

    assert (listed.id, listed.state) == ("c", NodeState.DRAINING)
