"""How often something may start: in a lane, and with a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import InvalidOption
from taskyard.domain.explain import Condition
from taskyard.domain.lane import KeyRule, Order
from taskyard.domain.rate import Rate
from taskyard.domain.state import State
from taskyard.store.port import Promoted, Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    Worker,
    audited,
    change,
    complete,
    enqueued,
    failed,
    finish,
    ids,
    lane_of,
    node,
    released,
    running,
    seen,
)

SLOWLY = Rate(1, 10.0)
IN_BURSTS = Rate(2, 1.0, 3)


async def tireless(store: Store, name: str = "node-a", slots: int = 100) -> Worker:
    return await node(store, name, slots=slots, lease_seconds=1e6)


async def key_rate(store: Store, pattern: str, rate: Rate | None, limit: int = 100) -> None:
    await store.set_key_rule(pattern, limit, rate=rate, actor="ann")


async def waiting(store: Store, count: int, **options: Any) -> list[str]:
    return [await enqueued(store, **options) for _ in range(count)]


# --- lanes ---


@pytest.mark.spec("engine-3", "engine-8")
async def test_a_lane_starts_a_burst_and_then_at_its_rate(store: Store, time: StoreTime) -> None:
    assert (await change(store, "slow", rate=IN_BURSTS)).rate == IN_BURSTS
    worker = await tireless(store)
    tasks = await waiting(store, 10, lane="slow")
    counts = [len(await worker.claim(10))]
    for step in (0.4, 0.1, 0.5, 0.4, 1.0, 100.0):
        await time.advance(step)
        counts.append(len(await worker.claim(10)))

    assert counts == [3, 0, 1, 1, 0, 2, 3]
    assert (await lane_of(store, "slow")).queued == 0
    assert (await seen(store, tasks[-1])).state is State.RUNNING


@pytest.mark.spec("engine-3")
async def test_one_claim_takes_no_more_than_there_are_tokens(store: Store) -> None:
    await change(store, "slow", rate=IN_BURSTS)
    worker = await tireless(store)
    tasks = await waiting(store, 5, lane="slow")
    other = await enqueued(store)

    claim = await worker.ask(10)

    assert sorted(ids(claim.tasks)) == sorted([*tasks[:3], other])
    assert await worker.claim_ids(10) == []


@pytest.mark.spec("engine-3")
async def test_the_rate_is_that_of_all_nodes_together(store: Store, elsewhere: Store) -> None:
    await change(store, "slow", rate=IN_BURSTS)
    one, other = await tireless(store), await tireless(elsewhere, "node-b")
    tasks = await waiting(store, 5, lane="slow")

    assert await one.claim_ids(2) == tasks[:2]
    assert await other.claim_ids(2) == tasks[2:3]
    assert await one.claim_ids(2) == []


@pytest.mark.spec("engine-3")
async def test_a_token_is_used_up_by_each_attempt_and_never_given_back(
    store: Store, time: StoreTime
) -> None:
    await change(store, "slow", rate=SLOWLY)
    worker = await tireless(store)
    task = await running(store, worker, lane="slow")
    for end in (released, failed, released):
        await finish(store, end(task))
        assert await worker.claim_ids(1) == []
        await time.advance(10)
        task = await worker.claim_one()

    assert task.attempt == 4


@pytest.mark.spec("engine-3")
async def test_a_quiet_time_fills_no_more_than_the_burst(store: Store, time: StoreTime) -> None:
    await change(store, "slow", rate=IN_BURSTS)
    worker = await tireless(store)
    tasks = await waiting(store, 9, lane="slow")
    assert await worker.claim_ids(10) == tasks[:3]
    await time.advance(1000)

    assert await worker.claim_ids(10) == tasks[3:6]


@pytest.mark.spec("engine-3", "engine-10")
async def test_promote_tells_when_the_lane_opens(store: Store, time: StoreTime) -> None:
    await change(store, "slow", rate=SLOWLY)
    worker = await tireless(store)
    tasks = await waiting(store, 2, lane="slow")
    opens_at = await store.now() + 10 * SECOND
    assert await worker.claim_ids(10) == tasks[:1]
    assert await store.promote() == Promoted(0, opens_at)
    await time.advance(10)

    assert await store.promote() == Promoted(1, None)

    assert await worker.claim_ids(10) == tasks[1:]
    assert await store.promote() == Promoted(0, opens_at + 10 * SECOND)


@pytest.mark.spec("engine-3")
async def test_while_tokens_are_left_nobody_need_be_told(store: Store) -> None:
    await change(store, "slow", rate=IN_BURSTS)
    worker = await tireless(store)
    await running(store, worker, lane="slow")

    assert await store.promote() == Promoted(0, None)


@pytest.mark.spec("engine-3")
async def test_promote_tells_the_earliest_of_all(store: Store, time: StoreTime) -> None:
    worker = await tireless(store)
    now = await store.now()
    await enqueued(store, delay=30)
    await change(store, "slow", rate=SLOWLY)
    await running(store, worker, lane="slow")
    await change(store, "shut", paused=True, paused_until=now + 20 * SECOND)
    await store.pause_yard(True, until=now + 40 * SECOND, actor="ann")
    seen_due = [(await store.promote()).next_due]
    for _ in range(4):
        await time.advance(10)
        promoted = await store.promote()
        assert promoted.count == 1
        seen_due.append(promoted.next_due)

    assert seen_due == [*(now + at * SECOND for at in (10, 20, 30, 40)), None]


@pytest.mark.spec("engine-3", "lifecycle-3")
@pytest.mark.parametrize("rate", [None, Rate(1, 10.0, 2)], ids=str)
async def test_a_new_rate_lets_in_whom_it_lets_in(
    store: Store, time: StoreTime, rate: Rate | None
) -> None:
    await change(store, "slow", rate=SLOWLY)
    worker = await tireless(store)
    tasks = await waiting(store, 2, lane="slow")
    assert await worker.claim_ids(1) == tasks[:1]
    await time.advance(1)
    assert await worker.claim_ids(1) == []

    assert (await change(store, "slow", rate=rate)).rate == rate

    assert await worker.claim_ids(10) == tasks[1:]


@pytest.mark.spec("engine-3")
async def test_a_lane_without_its_rate_waits_for_nothing(store: Store) -> None:
    await change(store, "slow", rate=SLOWLY)
    worker = await tireless(store)
    tasks = await waiting(store, 3, lane="slow")
    assert await worker.claim_ids(10) == tasks[:1]

    await change(store, "slow", rate=None)

    assert await worker.claim_ids(10) == tasks[1:]
    assert await store.promote() == Promoted(0, None)


@pytest.mark.spec("engine-14", "lifecycle-6", "engine-3")
async def test_explain_tells_when_the_lane_opens(store: Store, time: StoreTime) -> None:
    await change(store, "slow", rate=SLOWLY)
    worker = await tireless(store)
    await running(store, worker, lane="slow")
    opens_at = await store.now() + 10 * SECOND
    behind = await enqueued(store, lane="slow")
    await time.advance(4)

    [wait] = (await store.explain(behind)).waits

    assert (wait.condition, wait.code) == (Condition.LANE, "lane_rate")
    assert wait.text == "the rate of lane slow lets the next one start in 6.0 s"
    assert wait.figures == {"lane": "slow", "opens_at": opens_at}
    await time.advance(6)
    assert (await store.explain(behind)).waits == ()


@pytest.mark.spec("engine-3", "lifecycle-17")
async def test_rates_are_written_down(store: Store) -> None:
    await change(store, "slow", rate=Rate(10, 1.0, 5))
    await change(store, "slow", rate=None)
    await store.set_key_rule("host:*", 4, rate=Rate(10, 1.0, 5), actor="ann")
    await store.set_key_rule("host:*", 4, actor="ann")

    assert await audited(store, "set_rate", "set_key_rule") == [
        ("ann", "set_rate", "lane:slow", "10 in 1 s, burst 5"),
        ("ann", "set_rate", "lane:slow", "None"),
        ("ann", "set_key_rule", "key:host:*", "limit 4, 10 in 1 s, burst 5"),
        ("ann", "set_key_rule", "key:host:*", "limit 4"),
    ]


@pytest.mark.spec("engine-3")
async def test_a_rate_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(InvalidOption, match="starts"):
        await change(store, "slow", rate=Rate(0))
    with pytest.raises(InvalidOption, match="burst"):
        await store.set_key_rule("k", 1, rate=Rate(1, 1, 0), actor="ann")

    assert await store.key_rules() == []


# --- keys ---


@pytest.mark.spec("engine-3", "engine-8")
@pytest.mark.parametrize(
    ("before", "after", "opens_in"),
    [
        (Rate(1, 4.0), Rate(1, 2.0, 2), 2_000_000),
        (Rate(1, 2.0, 2), Rate(3, 2.0, 3), 666_666),
    ],
)
async def test_who_comes_after_a_rate_was_changed_waits_for_its_next_token(
    store: Store, before: Rate, after: Rate, opens_in: int
) -> None:
    """Nobody waited for the key when its rate was changed."""
    await key_rate(store, "k", before)
    worker = await tireless(store)
    [first] = await waiting(store, 1, keys=("k",))
    assert await worker.claim_ids(10) == [first]
    await key_rate(store, "k", after)
    await waiting(store, 1, keys=("k",))

    assert await worker.claim_ids(10) == []
    assert (await store.promote()).next_due == await store.now() + opens_in


@pytest.mark.spec("engine-3")
async def test_what_was_taken_of_a_key_stays_taken_when_its_rule_goes_and_comes_back(
    store: Store, time: StoreTime
) -> None:
    await key_rate(store, "k", SLOWLY)
    worker = await tireless(store)
    first, second = await waiting(store, 2, keys=("k",))
    assert await worker.claim_ids(10) == [first]
    await store.set_key_rule("k", None, actor="ann")
    await key_rate(store, "k", SLOWLY)
    assert await worker.claim_ids(10) == []

    await time.advance(10)
    await store.promote()
    assert await worker.claim_ids(10) == [second]


@pytest.mark.spec("engine-3", "engine-8")
async def test_a_key_starts_a_burst_and_then_at_its_rate(store: Store, time: StoreTime) -> None:
    await key_rate(store, "k", IN_BURSTS)
    assert await store.key_rules() == [KeyRule("k", 100, IN_BURSTS)]
    worker = await tireless(store)
    tasks = await waiting(store, 10, keys=("k",))
    counts = [len(await worker.claim(10))]
    for step in (0.4, 0.1, 0.5, 0.4, 1.0, 100.0):
        await time.advance(step)
        await store.promote()
        counts.append(len(await worker.claim(10)))

    assert counts == [3, 0, 1, 1, 0, 2, 3]
    assert (await seen(store, tasks[-1])).state is State.RUNNING


@pytest.mark.spec("engine-3", "engine-9")
async def test_who_waits_for_the_rate_of_a_key_is_passed_over(store: Store) -> None:
    await key_rate(store, "k", SLOWLY)
    worker = await tireless(store)
    first, second = await waiting(store, 2, keys=("k",), priority=1)
    other = await enqueued(store, priority=9)

    assert await worker.claim_ids(10) == [first, other]
    assert (await seen(store, second)).parked_on == "k"
    assert [(key.name, key.waiting) for key in await store.keys()] == [("k", 1)]


@pytest.mark.spec("engine-3")
async def test_each_key_of_a_prefix_has_a_rate_of_its_own(store: Store) -> None:
    await key_rate(store, "host:*", SLOWLY)
    worker = await tireless(store)
    a, b = [await waiting(store, 2, keys=(f"host:{name}",)) for name in "ab"]

    assert await worker.claim_ids(10) == [a[0], b[0]]


@pytest.mark.spec("engine-3")
async def test_a_key_with_a_rate_keeps_its_limit(store: Store, time: StoreTime) -> None:
    await key_rate(store, "k", Rate(1, 1.0, 5), limit=2)
    worker = await tireless(store)
    tasks = await waiting(store, 4, keys=("k",))
    held = await worker.claim(10)
    assert ids(held) == tasks[:2]
    await time.advance(100)
    await store.promote()
    assert await worker.claim_ids(10) == []

    await complete(store, held[0])

    assert await worker.claim_ids(10) == tasks[2:3]


@pytest.mark.spec("engine-3")
async def test_a_key_that_is_given_back_has_room_at_its_rate_only(
    store: Store, time: StoreTime
) -> None:
    await key_rate(store, "k", SLOWLY, limit=1)
    worker = await tireless(store)
    first, second = await waiting(store, 2, keys=("k",))
    await complete(store, await worker.claim_one())
    assert await worker.claim_ids(10) == []
    opens_at = await store.now() + 10 * SECOND
    assert await store.promote() == Promoted(0, opens_at)
    await time.advance(10)

    assert (await store.promote()).count == 1

    assert await worker.claim_ids(10) == [second]
    assert first != second


@pytest.mark.spec("engine-3", "engine-10")
async def test_promote_wakes_as_many_as_the_rate_allows_and_goes_on(
    store: Store, time: StoreTime
) -> None:
    await key_rate(store, "k", Rate(1, 10.0, 2))
    worker = await tireless(store)
    tasks = await waiting(store, 5, keys=("k",))
    now = await store.now()
    assert await worker.claim_ids(10) == tasks[:2]
    assert await store.promote() == Promoted(0, now + 10 * SECOND)
    for task_id in tasks[2:]:
        await time.advance(10)
        assert (await store.promote()).count == 1
        assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("engine-3", "engine-10")
async def test_tokens_that_gather_wake_one_each(store: Store, time: StoreTime) -> None:
    """Those who were woken may still wait, for a node, when the next token comes."""
    await key_rate(store, "k", Rate(1, 10.0, 2))
    worker = await tireless(store)
    tasks = await waiting(store, 5, keys=("k",))
    assert await worker.claim_ids(10) == tasks[:2]
    for _ in range(2):
        await time.advance(10)
        assert (await store.promote()).count == 1

    assert await worker.claim_ids(10) == tasks[2:4]
    await time.advance(10)
    await store.promote()
    assert await worker.claim_ids(10) == tasks[4:]


@pytest.mark.spec("engine-3", "engine-10")
async def test_a_token_nobody_took_goes_to_the_next(store: Store, time: StoreTime) -> None:
    await key_rate(store, "k", SLOWLY)
    worker = await tireless(store)
    tasks = await waiting(store, 4, keys=("k",))
    assert await worker.claim_ids(10) == tasks[:1]
    await time.advance(10)
    await store.promote()
    await store.cancel(tasks[1], actor="ann")

    assert await worker.claim_ids(10) == [tasks[2]]


@pytest.mark.spec("engine-3", "engine-10")
async def test_a_token_that_is_left_by_another_goes_to_who_waits(
    store: Store, time: StoreTime
) -> None:
    """Another came and took a token before anybody was told of those that had come."""
    await key_rate(store, "k", Rate(1, 10.0, 3), limit=9)
    worker = await tireless(store)
    tasks = await waiting(store, 4, keys=("k",))
    assert await worker.claim_ids(10) == tasks[:3]
    await time.advance(20)
    other = await enqueued(store, keys=("k",))
    assert await worker.claim_ids(10) == [other]

    assert (await store.promote()).count == 1

    assert await worker.claim_ids(10) == tasks[3:]


@pytest.mark.spec("engine-3", "engine-10")
@pytest.mark.parametrize("pattern", ["k", "other"])
async def test_a_token_nobody_was_told_of_is_not_lost_when_a_rule_is_changed(
    store: Store, time: StoreTime, pattern: str
) -> None:
    await key_rate(store, "k", Rate(1, 10.0, 3))
    worker = await tireless(store)
    tasks = await waiting(store, 4, keys=("k",))
    assert await worker.claim_ids(10) == tasks[:3]
    await time.advance(20)

    await key_rate(store, pattern, Rate(1, 10.0, 2))
    await store.promote()

    assert await worker.claim_ids(10) == tasks[3:]


@pytest.mark.spec("engine-3", "engine-10")
async def test_promote_tells_of_no_more_keys_than_it_is_asked_to(
    store: Store, time: StoreTime
) -> None:
    await key_rate(store, "k*", SLOWLY)
    worker = await tireless(store)
    for name in ("k1", "k2", "k3"):
        await waiting(store, 2, keys=(name,))
    assert len(await worker.claim(10)) == 3
    opens_at = await store.now() + 10 * SECOND
    await time.advance(10)

    assert await store.promote(limit=2) == Promoted(2, opens_at)
    assert len(await worker.claim(10)) == 2
    assert (await store.promote(limit=2)).count == 1
    assert len(await worker.claim(10)) == 1


@pytest.mark.spec("engine-3", "engine-10")
@pytest.mark.parametrize("how", ["other rate", "no rate", "no rule", "exact rule"])
async def test_a_new_rule_lets_in_whom_it_lets_in(store: Store, how: str) -> None:
    await key_rate(store, "k*", SLOWLY)
    worker = await tireless(store)
    tasks = await waiting(store, 4, keys=("k1",))
    held = await worker.claim(10)
    assert ids(held) == tasks[:1]
    match how:
        case "other rate":
            await key_rate(store, "k*", Rate(1, 10.0, 2), limit=2)
            wanted = tasks[1:2]
        case "no rate":
            await key_rate(store, "k*", None)
            wanted = tasks[1:]
        case "no rule":
            await complete(store, *held)
            await store.set_key_rule("k*", None, actor="ann")
            wanted = tasks[1:2]
        case _:
            await key_rate(store, "k1", None, limit=3)
            wanted = tasks[1:3]

    claimed = await worker.claim_ids(10)

    assert claimed == wanted


@pytest.mark.spec("engine-3", "engine-9")
async def test_fifo_waits_for_the_rate_of_the_key_of_its_head(
    store: Store, time: StoreTime
) -> None:
    await change(store, "line", order=Order.FIFO)
    await key_rate(store, "k", SLOWLY)
    worker = await tireless(store)
    first, second = await waiting(store, 2, lane="line", keys=("k",))
    behind = await enqueued(store, lane="line")
    assert await worker.claim_ids(10) == [first]
    assert (await seen(store, second)).parked_on is None
    await time.advance(10)
    await store.promote()

    assert await worker.claim_ids(10) == [second, behind]


@pytest.mark.spec("engine-14", "lifecycle-6", "engine-3")
async def test_explain_tells_when_the_key_opens(store: Store, time: StoreTime) -> None:
    await key_rate(store, "k", SLOWLY)
    worker = await tireless(store)
    held = await running(store, worker, keys=("k",))
    opens_at = await store.now() + 10 * SECOND
    behind = await enqueued(store, keys=("k",))
    await time.advance(4)

    [wait] = (await store.explain(behind)).waits

    assert (wait.condition, wait.code) == (Condition.KEYS, "key_rate")
    assert wait.text == "the rate of key k lets the next one start in 6.0 s"
    assert wait.figures == {"key": "k", "opens_at": opens_at}
    await key_rate(store, "k", SLOWLY, limit=1)
    [wait] = (await store.explain(behind)).waits
    assert (wait.code, wait.figures["holders"]) == ("key_full", [held.id])


@pytest.mark.spec("engine-3")
async def test_enqueue_parks_nobody_on_a_key_that_has_a_token(store: Store) -> None:
    await key_rate(store, "k", IN_BURSTS)
    worker = await tireless(store)
    await running(store, worker, keys=("k",))
    second = await enqueued(store, keys=("k",))

    assert (await seen(store, second)).parked_on is None
    assert await worker.claim_ids(1) == [second]


# --- in the long run ---


def most_in_any_window(starts: Sequence[int], rate: Rate) -> bool:
    """In any span of time no more start than the burst and what has come in since."""
    return all(
        end - begin + 1 <= rate.burst + (starts[end] - starts[begin]) // rate.interval
        for begin in range(len(starts))
        for end in range(begin, len(starts))
    )


@pytest.mark.spec("engine-3")
@pytest.mark.parametrize("of", ["lane", "key"])
async def test_in_any_span_of_time_the_rate_is_kept_and_used(
    store: Store, time: StoreTime, of: str
) -> None:
    rate = Rate(3, 1.0, 4)
    if of == "lane":
        await change(store, "slow", rate=rate)
        await waiting(store, 30, lane="slow")
    else:
        await key_rate(store, "k", rate)
        await waiting(store, 30, keys=("k",))
    worker = await tireless(store)
    starts: list[int] = []
    wanted: list[int] = []
    full_at = 0
    for step in (0.0, 0.1, 0.35, 0.2, 0.05, 1.4, 0.9, 0.01, 3.0, 0.2, 0.2, 0.2, 0.2, 0.2):
        await time.advance(step)
        await store.promote()
        now = await store.now()
        starts += [now for _ in await worker.claim(30)]
        count = rate.tokens(full_at, now)
        full_at = rate.take(full_at, now, count)
        wanted += [now] * count

    assert most_in_any_window(starts, rate)
    assert starts == wanted
