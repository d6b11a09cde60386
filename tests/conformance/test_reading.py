from __future__ import annotations

from typing import Any

import pytest

from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import KeyRule, Lane, LaneChange
from taskyard.domain.state import State
from taskyard.domain.task import Dedup, TaskQuery
from taskyard.store.port import Ending, Store
from tests.conformance.verbs import (
    BROKEN,
    capacity,
    complete,
    enqueued,
    failed,
    finish,
    ids,
    limit,
    new,
    node,
    pause,
    running,
    seen,
    stopped,
    succeeded,
)


@pytest.mark.spec("lifecycle-7")
async def test_tasks_are_listed_newest_first(store: Store) -> None:
    made = [await enqueued(store) for _ in range(5)]

    assert ids(await store.find(TaskQuery())) == made[::-1]


@pytest.mark.spec("lifecycle-7")
async def test_what_is_listed_is_the_whole_task(store: Store) -> None:
    task = await running(
        store,
        await node(store, capabilities=("gpu",)),
        keys=("k",),
        dedup=Dedup("d"),
        requires=("gpu",),
        payload='"p"',
    )
    await finish(store, failed(task))

    assert await store.find(TaskQuery()) == [await seen(store, task.id)]


@pytest.mark.spec("lifecycle-7")
async def test_every_filter_finds_its_own(store: Store) -> None:
    worker = await node(store, kinds=("work", "mail"))
    done = await running(store, worker)
    await complete(store, done)
    mail = await enqueued(store, "mail")
    lane = await enqueued(store, lane="slow")
    keyed = await enqueued(store, keys=("a", "b"))
    later = await enqueued(store, delay=60)

    async def found(**query: object) -> list[str]:
        return ids(await store.find(TaskQuery(**query)))  # type: ignore[arg-type]

    assert await found(state=State.COMPLETED) == [done.id]
    assert await found(state=State.PENDING) == [later]
    assert await found(state=State.QUEUED) == [keyed, lane, mail]
    assert await found(state=State.FAILED) == []
    assert await found(kind="mail") == [mail]
    assert await found(kind="unknown") == []
    assert await found(lane="slow") == [lane]
    assert await found(lane="unknown") == []
    assert await found(key="b") == [keyed]
    assert await found(key="unknown") == []
    assert await found(state=State.QUEUED, kind="work", lane="default", key="a") == [keyed]
    assert await found(state=State.PENDING, kind="mail") == []


@pytest.mark.spec("lifecycle-7")
async def test_a_key_finds_its_tasks_when_they_have_ended_too(store: Store) -> None:
    task = await running(store, await node(store), keys=("k",))
    await complete(store, task)

    assert ids(await store.find(TaskQuery(key="k"))) == [task.id]


@pytest.mark.spec("lifecycle-7")
async def test_pages_stay_put_while_new_tasks_arrive(store: Store) -> None:
    made = [await enqueued(store) for _ in range(7)]
    pages: list[list[str]] = []
    after: int | None = None
    while page := await store.find(TaskQuery(limit=3, after=after)):
        pages.append(ids(page))
        after = page[-1].no
        await enqueued(store)

    newest_first = made[::-1]
    assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:]]


@pytest.mark.spec("lifecycle-7")
@pytest.mark.parametrize("filters", [{}, {"lane": "default"}, {"kind": "work"}, {"key": "k"}])
async def test_pages_of_a_state_stay_put_while_tasks_leave_and_enter_it(
    store: Store, filters: dict[str, Any]
) -> None:
    """Also when the task at the end of the last page has gone."""
    await limit(store, "k", 100)
    worker = await node(store)
    made = [await enqueued(store, keys=("k",)) for _ in range(12)]
    left: set[str] = set()
    seen: list[str] = []
    after: int | None = None
    while page := await store.find(TaskQuery(state=State.QUEUED, limit=3, after=after, **filters)):
        seen += ids(page)
        after = page[-1].no
        gone = page[-1].id
        await store.cancel(gone, actor="ann")
        claimed = await worker.claim_one()  # the oldest: it would have come on a later page
        await enqueued(store, keys=("k",))  # newer than the first page
        left |= {gone, claimed.id}

    stayed = [task_id for task_id in reversed(made) if task_id not in left]
    assert [task_id for task_id in seen if task_id not in left] == stayed
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(made)


@pytest.mark.spec("lifecycle-7")
async def test_pages_of_a_filter_skip_and_repeat_nothing(store: Store) -> None:
    wanted = []
    for number in range(12):
        task_id = await enqueued(store, lane="even" if number % 2 == 0 else "odd")
        if number % 2 == 0:
            wanted.append(task_id)
    got: list[str] = []
    after: int | None = None
    while page := await store.find(TaskQuery(lane="even", limit=2, after=after)):
        got += ids(page)
        after = page[-1].no

    assert got == wanted[::-1]


@pytest.mark.spec("lifecycle-7")
@pytest.mark.parametrize("size", [0, -1, 1001])
async def test_a_page_has_from_1_to_1000_tasks(store: Store, size: int) -> None:
    with pytest.raises(InvalidOption, match="from 1 to 1000"):
        await store.find(TaskQuery(limit=size))


@pytest.mark.spec("lifecycle-7")
async def test_endings_are_those_that_have_ended(store: Store) -> None:
    worker = await node(store)
    for _ in range(5):
        await enqueued(store)
    done, broken, stop, again, runs = await worker.claim(5)
    await finish(
        store,
        succeeded(done, '"result"'),
        failed(broken, retry=False),
        stopped(stop),
        failed(again, delay=60),
    )

    endings = await store.endings([*ids([done, broken, stop, again, runs]), "nobody"])

    assert sorted(endings, key=lambda ending: ending.id) == sorted(
        [
            Ending(done.id, State.COMPLETED, '"result"'),
            Ending(broken.id, State.FAILED, None, BROKEN),
            Ending(stop.id, State.CANCELLED),
        ],
        key=lambda ending: ending.id,
    )


@pytest.mark.spec("lifecycle-7")
async def test_the_ending_of_a_task_that_completed_at_last_carries_no_error(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await finish(store, failed(task))
    await finish(store, succeeded(await worker.claim_one(), "1"))

    assert await store.endings([task.id]) == [Ending(task.id, State.COMPLETED, "1")]


@pytest.mark.spec("lifecycle-7")
async def test_there_are_no_endings_of_nothing(store: Store) -> None:
    assert await store.endings([]) == []


@pytest.mark.spec("engine-5")
async def test_counts_name_every_state(store: Store) -> None:
    assert await store.counts() == dict.fromkeys(State, 0)


@pytest.mark.spec("engine-5")
async def test_counts_are_right_in_every_state(store: Store) -> None:
    worker = await node(store)
    for _ in range(5):
        await enqueued(store, keys=("k",))
    await enqueued(store, delay=60)
    [held] = await worker.claim(10)  # the other four were looked at and wait for the key
    await enqueued(store)
    await store.cancel(await enqueued(store), actor="ann")

    assert await store.counts() == {
        **dict.fromkeys(State, 0),
        State.RUNNING: 1,
        State.QUEUED: 5,
        State.PENDING: 1,
        State.CANCELLED: 1,
    }
    await complete(store, held)
    assert (await store.counts())[State.COMPLETED] == 1
    assert (await store.counts())[State.RUNNING] == 0


@pytest.mark.spec("engine-3")
async def test_a_lane_exists_from_the_first_time_it_is_named(store: Store) -> None:
    await enqueued(store, lane="b")
    await capacity(store, "a", 2)

    assert await store.lanes() == [Lane(name="a", capacity=2), Lane(name="b", queued=1)]


@pytest.mark.spec("engine-3")
async def test_a_lane_shows_what_waits_and_runs_in_it(store: Store) -> None:
    worker = await node(store)
    await running(store, worker, lane="slow", keys=("k",))
    await enqueued(store, lane="slow", keys=("k",))
    await enqueued(store, lane="slow")
    await enqueued(store, lane="slow", delay=60)
    await pause(store, "slow", reason="upkeep")

    assert await store.lanes() == [
        Lane(name="slow", paused=True, paused_reason="upkeep", running=1, queued=2, pending=1)
    ]


@pytest.mark.spec("engine-3")
async def test_changing_a_lane_answers_the_lane(store: Store) -> None:
    await enqueued(store, lane="slow")

    lane = await store.set_lane("slow", LaneChange(capacity=3, paused=True), actor="ann")

    assert lane == Lane(name="slow", capacity=3, paused=True, queued=1)


@pytest.mark.spec("engine-3")
async def test_what_a_change_of_a_lane_leaves_out_stays(store: Store) -> None:
    await store.set_lane("slow", LaneChange(capacity=3), actor="ann")
    await store.set_lane("slow", LaneChange(paused=True, paused_reason="why"), actor="ann")
    await store.set_lane("slow", LaneChange(capacity=4), actor="ann")

    assert await store.lanes() == [Lane(name="slow", capacity=4, paused=True, paused_reason="why")]
    lane = await store.set_lane("slow", LaneChange(paused=False), actor="ann")
    assert (lane.paused, lane.paused_reason) == (False, None)


@pytest.mark.spec("engine-3")
async def test_a_capacity_below_0_is_refused(store: Store) -> None:
    with pytest.raises(InvalidOption, match="capacity"):
        await capacity(store, "slow", -1)

    assert await store.lanes() == []


@pytest.mark.spec("engine-3")
async def test_keys_are_those_held_or_waited_for(store: Store) -> None:
    worker = await node(store)
    await limit(store, "b", 2)
    a = await running(store, worker, keys=("a", "b"))
    b = await running(store, worker, keys=("b",))
    for _ in range(2):
        await enqueued(store, keys=("a",))

    listed = {key.name: key for key in await store.keys()}

    assert set(listed) == {"a", "b"}
    assert (listed["a"].holders, listed["a"].limit, listed["a"].waiting) == ((a.id,), 1, 2)
    assert (set(listed["b"].holders), listed["b"].limit, listed["b"].waiting) == (
        {a.id, b.id},
        2,
        0,
    )
    await complete(store, b)
    assert [key.holders for key in await store.keys() if key.name == "b"] == [(a.id,)]


@pytest.mark.spec("engine-3")
async def test_the_most_wanted_keys_are_listed_first(store: Store) -> None:
    worker = await node(store)
    for count, name in enumerate(("a", "b", "c")):
        await running(store, worker, keys=(name,))
        for _ in range(count):
            await enqueued(store, keys=(name,))

    assert [key.name for key in await store.keys(limit=2)] == ["c", "b"]


@pytest.mark.spec("engine-3")
async def test_key_rules_are_kept_replaced_and_removed(store: Store) -> None:
    await limit(store, "host:*", 4)
    await limit(store, "disk", 2)
    await limit(store, "disk", 3)
    assert sorted(await store.key_rules(), key=lambda rule: rule.pattern) == [
        KeyRule("disk", 3),
        KeyRule("host:*", 4),
    ]

    await limit(store, "host:*", None)
    await limit(store, "never there", None)

    assert await store.key_rules() == [KeyRule("disk", 3)]


@pytest.mark.spec("engine-3")
@pytest.mark.parametrize(("pattern", "most"), [("k", -1), ("", 1), ("a*b", 1)])
async def test_a_wrong_key_rule_is_refused(store: Store, pattern: str, most: int) -> None:
    with pytest.raises(InvalidOption):
        await limit(store, pattern, most)

    assert await store.key_rules() == []
    assert await store.audit() == []


@pytest.mark.spec("engine-18")
async def test_what_was_saved_is_there_when_the_store_is_opened_again(
    store: Store, elsewhere: Store
) -> None:
    tasks = [new() for _ in range(3)]
    await store.enqueue(tasks)
    await store.close()

    assert {task.id for task in await elsewhere.find(TaskQuery())} == {t.id for t in tasks}


@pytest.mark.spec("engine-27")
async def test_opening_and_closing_twice_is_no_mistake(store: Store) -> None:
    await store.open()
    await store.close()
    await store.close()


@pytest.mark.spec("engine-27")
async def test_a_sound_store_has_nothing_to_complain_of(store: Store) -> None:
    checks = await store.diagnose()

    assert checks
    assert [check for check in checks if not check.ok] == []
