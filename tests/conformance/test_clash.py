"""An enqueue whose dedup key is kept by another task may change that one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import StaleAttempt
from taskyard.domain.state import State
from taskyard.domain.task import Clash, Dedup, Duplicate, Enqueued
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import complete, enqueued, new, node, running, seen

ONCE = Dedup("nightly")
REPLACE = Dedup("nightly", clash=Clash.REPLACE)
DEBOUNCE = Dedup("nightly", clash=Clash.DEBOUNCE)


async def clash(store: Store, kind: str = "work", **options: Any) -> Duplicate:
    """Try to save a task; answers what it met."""
    [answer] = await store.enqueue([new(kind, **options)])
    assert isinstance(answer, Duplicate), answer
    return answer


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize("dedup", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_the_waiting_one_gets_the_new_payload(store: Store, dedup: Dedup) -> None:
    first = await enqueued(store, dedup=ONCE, payload='{"n":1}', priority=3)

    answer = await clash(store, dedup=dedup, payload='{"n":2}', priority=9)

    assert answer == Duplicate(first, changed=True)
    kept = await seen(store, first)
    assert (kept.payload, kept.priority, kept.state) == ('{"n":2}', 3, State.QUEUED)
    assert (await (await node(store)).claim_one()).payload == '{"n":2}'


@pytest.mark.spec("engine-15")
async def test_keep_changes_nothing(store: Store) -> None:
    first = await enqueued(store, dedup=REPLACE, payload='{"n":1}')

    assert await clash(store, dedup=ONCE, payload='{"n":2}') == Duplicate(first)
    assert (await seen(store, first)).payload == '{"n":1}'


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize("dedup", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_a_parked_or_a_paused_one_gets_the_new_payload_too(
    store: Store, dedup: Dedup
) -> None:
    await running(store, await node(store), keys=("k",))
    parked = await enqueued(store, dedup=Dedup("parked"), keys=("k",))
    idle = await enqueued(store, dedup=Dedup("idle"))
    await store.pause(idle, actor="ann")
    for key, task_id in (("parked", parked), ("idle", idle)):
        again = msgspec.structs.replace(dedup, key=key)

        assert await clash(store, dedup=again, payload="[1]") == Duplicate(task_id, changed=True)
        assert (await seen(store, task_id)).payload == "[1]"
    assert (await seen(store, idle)).state is State.PAUSED


@pytest.mark.spec("engine-10", "engine-15")
async def test_one_that_waits_for_a_key_goes_on_waiting_for_it(store: Store) -> None:
    worker = await node(store)
    holder = await running(store, worker, keys=("k",))
    first = await enqueued(store, dedup=ONCE, keys=("k",))

    assert await clash(store, dedup=REPLACE, payload="[1]") == Duplicate(first, changed=True)
    assert (await seen(store, first)).parked_on == "k"
    await complete(store, holder)
    claimed = await worker.claim_one()
    assert (claimed.id, claimed.payload) == (first, "[1]")


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize("dedup", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_a_running_one_keeps_its_payload(store: Store, dedup: Dedup) -> None:
    task = await running(store, await node(store), dedup=ONCE, payload='{"n":1}')

    assert await clash(store, dedup=dedup, payload='{"n":2}') == Duplicate(task.id)
    assert (await seen(store, task.id)).payload == '{"n":1}'


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize("dedup", [REPLACE, DEBOUNCE], ids=["replace", "debounce"])
async def test_one_of_another_kind_keeps_its_payload_and_its_time(
    store: Store, dedup: Dedup
) -> None:
    first = await enqueued(store, "mail", dedup=ONCE, payload='{"n":1}', delay=5)
    before = await seen(store, first)

    assert await clash(store, dedup=dedup, payload='{"n":2}', delay=60) == Duplicate(first)
    assert await seen(store, first) == before


@pytest.mark.spec("engine-15")
async def test_replace_leaves_the_time(store: Store) -> None:
    first = await enqueued(store, dedup=ONCE, delay=5)
    run_at = (await seen(store, first)).run_at

    await clash(store, dedup=REPLACE, delay=60, payload="[1]")

    kept = await seen(store, first)
    assert (kept.run_at, kept.payload) == (run_at, "[1]")


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize(("delay", "later"), [(8, 8), (3, 5), (None, 5)])
async def test_debounce_moves_the_time_to_the_later_one(
    store: Store, time: StoreTime, delay: float | None, later: int
) -> None:
    now = await store.now()
    first = await enqueued(store, dedup=DEBOUNCE, delay=5, payload="[0]")

    answer = await clash(store, dedup=DEBOUNCE, delay=delay, payload="[1]")

    assert answer == Duplicate(first, changed=True)
    kept = await seen(store, first)
    assert (kept.run_at, kept.state) == (now + later * SECOND, State.PENDING)
    assert (await store.promote()).next_due == kept.run_at
    await time.advance(later - 1)
    assert (await store.promote()).count == 0
    await time.advance(1)
    assert (await store.promote()).count == 1
    assert (await (await node(store)).claim_one()).payload == "[1]"


@pytest.mark.spec("engine-15")
async def test_debounce_does_not_take_back_what_is_queued(store: Store) -> None:
    first = await enqueued(store, dedup=DEBOUNCE)

    assert await clash(store, dedup=DEBOUNCE, delay=60) == Duplicate(first, changed=True)
    assert (await seen(store, first)).state is State.QUEUED


@pytest.mark.spec("engine-15")
async def test_debounce_leaves_the_time_of_one_that_waits_for_others(store: Store) -> None:
    other = await enqueued(store)
    first = await enqueued(store, dedup=DEBOUNCE, depends_on=(other,))
    run_at = (await seen(store, first)).run_at

    answer = await clash(store, dedup=DEBOUNCE, delay=60, payload="[1]")

    assert answer == Duplicate(first, changed=True)
    kept = await seen(store, first)
    assert (kept.run_at, kept.payload) == (run_at, "[1]")


@pytest.mark.spec("engine-15")
async def test_a_clash_inside_one_call_changes_the_first(store: Store) -> None:
    tasks = [new(dedup=DEBOUNCE, delay=5 + at, payload=f"[{at}]") for at in range(3)]

    answers = await store.enqueue([*tasks, new(id="other")])

    changed = Duplicate(tasks[0].id, changed=True)
    assert answers == [Enqueued(tasks[0].id), changed, changed, Enqueued("other")]
    kept = await seen(store, tasks[0].id)
    assert (kept.payload, kept.run_at) == ("[2]", kept.created_at + 7 * SECOND)


@pytest.mark.spec("engine-15", "engine-16")
async def test_the_same_id_again_changes_nothing(store: Store) -> None:
    first = await enqueued(store, dedup=DEBOUNCE, delay=5, payload="[0]")

    again = await clash(store, id=first, dedup=DEBOUNCE, delay=9, payload="[1]")

    assert again == Duplicate(first)
    assert (await seen(store, first)).payload == "[0]"


@pytest.mark.spec("engine-15", "engine-19")
async def test_a_stale_attempt_replaces_nothing(store: Store) -> None:
    task = await running(store, await node(store))
    first = await enqueued(store, dedup=ONCE, payload="[0]")
    await complete(store, task)

    with pytest.raises(StaleAttempt):
        await store.enqueue([new(dedup=REPLACE, payload="[1]")], by=task.hold)

    assert (await seen(store, first)).payload == "[0]"


@pytest.mark.spec("engine-15")
async def test_an_id_left_out_for_its_dedup_key_may_be_named_again(store: Store) -> None:
    first = await enqueued(store, dedup=ONCE)

    answers = await store.enqueue([new(id="a", dedup=ONCE), new(id="a"), new(depends_on=("a",))])

    assert answers[:2] == [Duplicate(first), Enqueued("a")]
    assert await store.get("a") is not None
