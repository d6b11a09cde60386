"""A lane or the yard that is paused until some moment goes on by itself."""

from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.lane import LaneChange
from taskyard.store.port import Promoted, Store, YardPause
from tests.conformance.places import StoreTime
from tests.conformance.verbs import audited, change, enqueued, lane_of, node, pause


@pytest.mark.spec("lifecycle-2")
async def test_a_lane_paused_until_a_moment_goes_on_then(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    until = await store.now() + 60 * SECOND
    task_id = await enqueued(store, lane="slow")
    lane = await change(store, "slow", paused=True, paused_reason="upkeep", paused_until=until)
    assert (lane.paused, lane.paused_reason, lane.paused_until) == (True, "upkeep", until)
    assert await lane_of(store, "slow") == lane
    assert await store.promote() == Promoted(0, until)
    await time.advance(59)
    assert await worker.claim_ids(10) == []
    await time.advance(1)

    assert await store.promote() == Promoted(1, None)

    lane = await lane_of(store, "slow")
    assert (lane.paused, lane.paused_reason, lane.paused_until) == (False, None, None)
    assert await audited(store, "resume") == [
        ("system", "resume", "lane:slow", "its time was over")
    ]
    assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("lifecycle-2")
async def test_a_claim_need_not_wait_for_promote(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    task_id = await enqueued(store, lane="slow")
    await change(store, "slow", paused=True, paused_until=await store.now() + 60 * SECOND)
    await time.advance(60)

    assert await worker.claim_ids(10) == [task_id]
    assert (await store.promote()).count == 1


@pytest.mark.spec("lifecycle-2")
async def test_resume_forgets_the_moment(store: Store) -> None:
    await change(store, "slow", paused=True, paused_until=await store.now() + 60 * SECOND)

    await pause(store, "slow", False)

    lane = await lane_of(store, "slow")
    assert (lane.paused, lane.paused_until) == (False, None)
    assert await store.promote() == Promoted(0, None)


@pytest.mark.spec("lifecycle-2")
async def test_a_pause_without_an_end_stays(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    await enqueued(store, lane="slow")
    await change(store, "slow", paused=True, paused_until=await store.now() + 60 * SECOND)
    await pause(store, "slow")
    await time.advance(100)

    assert await store.promote() == Promoted(0, None)
    assert await worker.claim_ids(10) == []
    lane = await lane_of(store, "slow")
    assert (lane.paused, lane.paused_until) == (True, None)


@pytest.mark.spec("lifecycle-2")
async def test_another_change_leaves_the_pause(store: Store) -> None:
    until = await store.now() + 60 * SECOND
    await change(store, "slow", paused=True, paused_reason="upkeep", paused_until=until)

    lane = await store.set_lane("slow", LaneChange(capacity=2), actor="ann")

    assert (lane.paused, lane.paused_reason, lane.paused_until) == (True, "upkeep", until)


@pytest.mark.spec("lifecycle-2", "engine-14", "lifecycle-6")
async def test_explain_tells_for_how_long(store: Store, time: StoreTime) -> None:
    await node(store)
    task_id = await enqueued(store, lane="slow")
    until = await store.now() + 60 * SECOND
    await change(store, "slow", paused=True, paused_reason="upkeep", paused_until=until)
    await time.advance(10)

    [wait] = (await store.explain(task_id)).waits

    assert wait.text == "lane slow is paused for 50.0 s (upkeep)"


@pytest.mark.spec("lifecycle-2")
async def test_the_yard_paused_until_a_moment_goes_on_then(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    until = await store.now() + 60 * SECOND
    task_id = await enqueued(store)
    await store.pause_yard(True, until=until, actor="ann")
    assert await store.promote() == Promoted(0, until)
    await time.advance(59)
    assert await worker.refusal() == "the yard is paused"
    await time.advance(1)

    assert await store.promote() == Promoted(1, None)

    assert await audited(store, "resume") == [("system", "resume", "yard", "its time was over")]
    assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("lifecycle-2")
async def test_a_claim_in_a_yard_need_not_wait_for_promote(store: Store, time: StoreTime) -> None:
    worker = await node(store, lease_seconds=1e6)
    task_id = await enqueued(store)
    await store.pause_yard(True, until=await store.now() + 60 * SECOND, actor="ann")
    await time.advance(60)

    assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("lifecycle-2")
@pytest.mark.parametrize("paused", [True, False])
async def test_a_yard_told_anew_forgets_the_moment(
    store: Store, time: StoreTime, paused: bool
) -> None:
    worker = await node(store, lease_seconds=1e6)
    task_id = await enqueued(store)
    await store.pause_yard(True, until=await store.now() + 60 * SECOND, actor="ann")
    await store.pause_yard(paused, actor="bob")
    await time.advance(100)

    assert await store.promote() == Promoted(0, None)
    if paused:
        assert await worker.refusal() == "the yard is paused"
    else:
        assert await worker.claim_ids(10) == [task_id]


@pytest.mark.spec("lifecycle-2")
async def test_whether_the_yard_is_paused_can_be_asked(store: Store, time: StoreTime) -> None:
    assert await store.yard_paused() is None
    await store.pause_yard(True, actor="ann")
    assert await store.yard_paused() == YardPause(None)
    until = await store.now() + 60 * SECOND
    await store.pause_yard(True, until=until, actor="ann")
    assert await store.yard_paused() == YardPause(until)
    await time.advance(60)
    assert await store.yard_paused() is None
    await store.pause_yard(True, actor="ann")
    await store.pause_yard(False, actor="ann")
    assert await store.yard_paused() is None
