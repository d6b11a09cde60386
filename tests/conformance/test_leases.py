from __future__ import annotations

import threading

import pytest

from taskyard.domain.node import Ask, News
from taskyard.domain.state import Reason, State
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    LEASE_SECONDS,
    complete,
    enqueued,
    finish,
    hold,
    ids,
    node,
    running,
    seen,
    state_of,
    stopped,
)


@pytest.mark.spec("engine-20")
async def test_a_beat_renews_the_lease(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task = await running(store, worker)
    for _ in range(5):
        await time.advance(LEASE_SECONDS - 1)
        assert not worker.beat().lost

    assert await store.rescue() == []
    assert (await seen(store, task.id)).state is State.RUNNING


@pytest.mark.spec("engine-20")
async def test_a_beat_works_from_any_thread(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    heard: list[News] = []

    thread = threading.Thread(target=lambda: heard.append(worker.beat()))
    thread.start()
    thread.join()

    assert heard == [News()]
    assert await worker.holds() == {hold(task)}


@pytest.mark.spec("engine-20")
async def test_a_lease_that_ran_out_but_was_not_rescued_revives_with_a_beat(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store)
    task = await running(store, worker)
    waiting = await enqueued(store)
    await time.advance(LEASE_SECONDS + 1)

    news = worker.beat()

    assert not news.lost
    assert await worker.holds() == {hold(task)}
    assert await store.rescue() == []
    assert await worker.claim_ids(1) == [waiting]
    await complete(store, task)


@pytest.mark.spec("engine-20")
async def test_a_rescued_lease_is_lost(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    await running(store, worker)
    await time.advance(LEASE_SECONDS + 1)
    await store.rescue()

    assert worker.beat() == News(lost=True)
    assert await store.news(worker.lease) == News(lost=True)
    assert await store.nodes() == []


@pytest.mark.spec("engine-20", "engine-23")
async def test_a_beat_brings_the_wish_to_cancel(store: Store) -> None:
    worker = await node(store)
    for _ in range(2):
        await enqueued(store)
    asked, other = await worker.claim(2)
    await store.cancel(asked.id, actor="ann")

    news = worker.beat()

    assert news.asks == (Ask(asked.no, asked.attempt, "cancel"),)
    assert await worker.holds() == {hold(asked), hold(other)}
    await finish(store, stopped(asked))
    assert worker.beat() == News()
    assert await worker.holds() == {hold(other)}


@pytest.mark.spec("engine-20", "engine-23")
async def test_news_bring_what_a_beat_brings_without_renewing(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.cancel(task.id, actor="ann")
    await time.advance(LEASE_SECONDS - 1)

    assert await store.news(worker.lease) == News(asks=(Ask(task.no, 1, "cancel"),))

    await time.advance(2)
    assert len(await store.rescue()) == 1


@pytest.mark.spec("engine-20")
async def test_news_are_of_this_lease_alone(store: Store) -> None:
    one, other = await node(store, "node-a"), await node(store, "node-b")
    task = await running(store, one)
    await store.cancel(task.id, actor="ann")

    assert other.beat() == News()


@pytest.mark.spec("engine-20")
async def test_a_lease_nobody_knows_is_lost(store: Store) -> None:
    assert store.beat(12345, timeout=10) == News(lost=True)
    assert await store.news(12345) == News(lost=True)


@pytest.mark.spec("engine-20")
async def test_a_beat_shows_when_the_node_was_last_seen(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    [before] = await store.nodes()
    await time.advance(10)
    worker.beat()

    [after] = await store.nodes()

    assert after.seen_at > before.seen_at
    assert after.registered_at == before.registered_at
    assert after.lease_left > LEASE_SECONDS - 1


@pytest.mark.spec("engine-24")
async def test_what_runs_on_a_draining_node_goes_on(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.drain(worker.lease)

    assert not worker.beat().lost
    assert await worker.holds() == {hold(task)}
    await complete(store, task)


@pytest.mark.spec("engine-24")
async def test_a_beat_does_not_end_a_drain(store: Store) -> None:
    worker = await node(store)
    await store.drain(worker.lease)
    worker.beat()

    assert await worker.refusal() == "this node is draining"


@pytest.mark.spec("engine-24", "engine-2", "engine-7")
async def test_what_still_runs_on_a_retired_node_goes_back_uncharged_and_in_place(
    store: Store,
) -> None:
    leaving, staying = await node(store, "node-a"), await node(store, "node-b")
    task = await running(store, leaving)
    waiting = await enqueued(store)
    await store.retire(leaving.lease)

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason) == (State.QUEUED, Reason.RELEASED)
    assert (kept.charged, kept.losses, kept.failures) == (0, 0, ())
    assert ids(await staying.claim(10)) == [task.id, waiting]
    assert leaving.beat() == News(lost=True)


@pytest.mark.spec("engine-24", "engine-6")
async def test_what_was_asked_to_stop_on_a_retired_node_is_cancelled(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.cancel(task.id, actor="ann")

    await store.retire(worker.lease)

    assert await state_of(store, task.id) == (State.CANCELLED, Reason.OPERATOR)


@pytest.mark.spec("engine-24")
async def test_retiring_twice_is_no_mistake(store: Store) -> None:
    worker = await node(store)

    await store.retire(worker.lease)
    await store.retire(worker.lease)

    assert await store.nodes() == []


@pytest.mark.spec("engine-20", "engine-4")
async def test_every_incarnation_has_a_higher_number(store: Store, elsewhere: Store) -> None:
    first = await node(store, "node-a")
    second = await node(elsewhere, "node-b")
    await store.retire(second.lease)
    third = await node(store, "node-b")

    assert first.lease < second.lease < third.lease
