from __future__ import annotations

import pytest

from taskyard.store.port import ClaimRequest, Store
from tests.conformance.verbs import complete, enqueued, hold, node, running, seen, succeeded


@pytest.mark.spec("engine-13")
async def test_the_same_number_again_gives_the_same_answer(store: Store) -> None:
    worker = await node(store)
    for _ in range(5):
        await enqueued(store)
    first = await worker.ask(3)

    again = await worker.ask_again(3)

    assert again.tasks == first.tasks
    assert len(first.tasks) == 3
    assert {(await seen(store, task.id)).attempt for task in first.tasks} == {1}


@pytest.mark.spec("engine-13")
async def test_the_same_number_gives_the_same_answer_from_another_process(
    store: Store, elsewhere: Store
) -> None:
    worker = await node(store)
    for _ in range(3):
        await enqueued(store)
    first = await worker.ask(2)

    worker.store = elsewhere

    assert (await worker.ask_again(2)).tasks == first.tasks


@pytest.mark.spec("engine-13", "engine-11")
async def test_the_same_number_also_says_again_what_is_ahead(store: Store) -> None:
    worker = await node(store, slots=1)
    for _ in range(3):
        await enqueued(store)
    first = await worker.ask(1, ahead=2)

    again = await worker.ask_again(1, ahead=2)

    assert again.tasks == first.tasks
    assert again.ahead == first.ahead != frozenset()


@pytest.mark.spec("engine-13")
async def test_a_new_number_gives_new_tasks(store: Store) -> None:
    worker = await node(store)
    first, second = await enqueued(store), await enqueued(store)

    assert await worker.claim_ids(1) == [first]
    assert await worker.claim_ids(1) == [second]


@pytest.mark.spec("engine-13")
async def test_what_has_ended_since_is_not_in_the_answer_again(store: Store) -> None:
    worker = await node(store)
    for _ in range(2):
        await enqueued(store)
    first = await worker.ask(2)
    await complete(store, first.tasks[0])

    assert (await worker.ask_again(2)).tasks == first.tasks[1:]


@pytest.mark.spec("engine-13")
async def test_an_old_number_claims_nothing_new(store: Store) -> None:
    worker = await node(store)
    for _ in range(2):
        await enqueued(store)
    first = await worker.ask(1)
    await worker.ask(1)
    await enqueued(store)

    old = await store.claim(ClaimRequest(lease=worker.lease, number=1, room=10))

    assert old.tasks == first.tasks


@pytest.mark.spec("engine-13")
async def test_the_answer_is_found_again_while_the_node_drains(store: Store) -> None:
    worker = await node(store)
    await enqueued(store)
    first = await worker.ask(1)
    await store.drain(worker.lease)

    assert (await worker.ask_again(1)).tasks == first.tasks


@pytest.mark.spec("engine-13")
async def test_numbers_of_two_nodes_have_nothing_to_do_with_each_other(store: Store) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    first, second = await enqueued(store), await enqueued(store)

    assert await one.claim_ids(1) == [first]
    assert await other.claim_ids(1) == [second]


@pytest.mark.spec("engine-13", "engine-31")
async def test_a_turn_repeated_after_a_lost_answer_claims_the_same(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await enqueued(store)
    request = ClaimRequest(lease=worker.lease, number=2, room=1)
    first = await store.turn([succeeded(task)], request)

    again = await store.turn([succeeded(task)], request)

    assert again.claim.tasks == first.claim.tasks
    assert len(again.claim.tasks) == 1


@pytest.mark.spec("engine-13", "engine-20")
async def test_the_store_tells_what_it_thinks_a_node_holds(store: Store) -> None:
    worker = await node(store, slots=1)
    held = await running(store, worker)
    await enqueued(store)
    ahead = (await worker.ask(0, ahead=1)).tasks[0]

    assert await worker.holds() == {hold(held), hold(ahead)}

    await complete(store, held)
    assert await worker.holds() == {ahead.hold}
