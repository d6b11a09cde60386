"""Who did what to which thing, and what the system did by itself."""

from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.lane import Audited, LaneChange
from taskyard.domain.outcome import Failed
from taskyard.domain.state import Reason
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    BROKEN,
    complete,
    enqueued,
    finish,
    node,
    running,
    verdict,
)

Line = tuple[str, str, str]


def lines(audit: list[Audited]) -> list[Line]:
    """(actor, action, subject) of each, oldest first; without the nodes' registrations."""
    return [(a.actor, a.action, a.subject) for a in reversed(audit) if a.action != "register"]


@pytest.mark.spec("lifecycle-17", "engine-6")
async def test_what_is_done_to_a_task_is_written_down(store: Store) -> None:
    task_id = await enqueued(store)
    await store.prioritize(task_id, 2, actor="ann")
    await store.cancel(task_id, actor="bob")
    await store.retry(task_id, actor="cid")

    audit = await store.audit()

    assert lines(audit) == [
        ("ann", "prioritize", f"task:{task_id}"),
        ("bob", "cancel", f"task:{task_id}"),
        ("cid", "retry", f"task:{task_id}"),
    ]
    assert [line.detail for line in reversed(audit)] == ["5 to 2", "cancelled", "was cancelled"]


@pytest.mark.spec("lifecycle-17", "engine-6")
async def test_asking_a_running_task_to_stop_is_written_down(store: Store) -> None:
    task = await running(store, await node(store))
    await store.cancel(task.id, actor="ann")

    assert lines(await store.audit()) == [("ann", "cancel", f"task:{task.id}")]
    assert (await store.audit())[0].detail == "asked"


@pytest.mark.spec("lifecycle-17")
async def test_what_is_done_to_lanes_keys_and_the_yard_is_written_down(store: Store) -> None:
    await store.set_lane("slow", LaneChange(capacity=2), actor="ann")
    await store.set_lane("slow", LaneChange(paused=True, paused_reason="upkeep"), actor="ann")
    await store.set_lane("slow", LaneChange(paused=False), actor="bob")
    await store.set_key_rule("host:*", 4, actor="ann")
    await store.set_key_rule("host:*", None, actor="ann")
    await store.pause_yard(True, actor="ann")
    await store.pause_yard(False, actor="bob")

    audit = await store.audit()

    assert lines(audit) == [
        ("ann", "set_capacity", "lane:slow"),
        ("ann", "pause", "lane:slow"),
        ("bob", "resume", "lane:slow"),
        ("ann", "set_key_rule", "key:host:*"),
        ("ann", "set_key_rule", "key:host:*"),
        ("ann", "pause", "yard"),
        ("bob", "resume", "yard"),
    ]
    details = [line.detail for line in reversed(audit)]
    assert details == ["2", "upkeep", "", "limit 4", "removed", "", ""]


@pytest.mark.spec("lifecycle-17", "engine-20")
async def test_a_rescue_is_written_down(store: Store) -> None:
    worker = await node(store, "node-a")
    task = await running(store, worker)
    await store.rescue([worker.lease])

    assert sorted(lines(await store.audit())) == [
        ("system", "rescue", "node:node-a"),
        ("system", "rescued", f"task:{task.id}"),
    ]


@pytest.mark.spec("lifecycle-17", "engine-22")
async def test_a_task_lost_for_good_is_written_down(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker, max_charged=1)
    await store.rescue([worker.lease])

    assert ("system", "lost", f"task:{task.id}") in lines(await store.audit())


@pytest.mark.spec("lifecycle-17", "lifecycle-11")
async def test_a_timeout_is_written_down(store: Store) -> None:
    task = await running(store, await node(store))
    await finish(store, verdict(task, Failed(BROKEN, reason=Reason.TIMEOUT)))

    assert lines(await store.audit()) == [("system", "timeout", f"task:{task.id}")]


@pytest.mark.spec("lifecycle-17", "engine-6")
@pytest.mark.parametrize("by", ["expire", "claim"])
async def test_a_passed_deadline_is_written_down(store: Store, time: StoreTime, by: str) -> None:
    worker = await node(store)
    task_id = await enqueued(store, deadline=await store.now() + SECOND)
    await time.advance(2)
    if by == "claim":
        await worker.claim(10)
    await store.expire()

    assert lines(await store.audit()) == [("system", "expired", f"task:{task_id}")]


@pytest.mark.spec("lifecycle-17", "engine-4")
async def test_a_new_node_is_written_down(store: Store) -> None:
    worker = await node(store, "node-a")

    [line] = await store.audit()

    assert (line.actor, line.action, line.subject) == ("system", "register", "node:node-a")
    assert str(worker.lease) in line.detail


@pytest.mark.spec("lifecycle-17")
async def test_the_happy_path_is_not_written_down(store: Store) -> None:
    await complete(store, await running(store, await node(store)))

    assert lines(await store.audit()) == []


@pytest.mark.spec("lifecycle-17", "security-18")
async def test_what_is_done_elsewhere_can_be_written_down(store: Store) -> None:
    await store.note("make_token", "token:1", "admin <b>ann</b> ü", actor="api:ann")
    await store.note("revoke_token", "token:1", "", actor="system")

    revoked, made = await store.audit()

    assert (made.actor, made.action, made.subject) == ("api:ann", "make_token", "token:1")
    assert made.detail == "admin <b>ann</b> ü"
    assert (revoked.actor, revoked.detail) == ("system", "")
    assert revoked.no > made.no


@pytest.mark.spec("lifecycle-17")
async def test_lines_carry_the_time_of_the_store(store: Store, time: StoreTime) -> None:
    await time.advance(1000)
    before = await store.now()
    await store.pause_yard(True, actor="ann")

    [line] = await store.audit()

    assert before <= line.at <= await store.now()


@pytest.mark.spec("lifecycle-17")
async def test_the_trail_is_read_in_pages_newest_first(store: Store) -> None:
    for number in range(5):
        await store.set_lane("slow", LaneChange(capacity=number), actor="ann")

    first = await store.audit(limit=2)
    second = await store.audit(limit=2, before=first[-1].no)
    rest = await store.audit(limit=2, before=second[-1].no)

    assert [line.detail for line in (*first, *second, *rest)] == ["4", "3", "2", "1", "0"]
