"""What a waiting task says, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.explain import Condition, Facts, FullKey, ServingNode, Wait, explain
from taskyard.domain.lane import Lane, Order
from taskyard.domain.node import NodeState
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Task

NOW = 1_700_000_000 * SECOND
IDLE = ServingNode(NodeState.READY, 1)


def waits(
    *, lane: Lane | None = None, state: State = State.QUEUED, facts: Any = None, **task: Any
) -> tuple[Wait, ...]:
    """The waits of a task, by default one that nothing keeps."""
    kept = Task(
        no=1,
        id="t",
        kind="work",
        lane="slow",
        priority=5,
        seq=1,
        payload="{}",
        state=state,
        reason=Reason.CREATED,
        attempt=0,
        charged=0,
        max_charged=4,
        timeout=60.0,
        created_at=NOW,
        run_at=NOW,
    )
    plain = Facts(
        now=NOW,
        task=msgspec.structs.replace(kept, **task),
        lane=lane or Lane(name="slow"),
        yard_paused=False,
        full_keys=[],
        nodes=[IDLE],
        before=0,
    )
    return explain(msgspec.structs.replace(plain, **(facts or {}))).waits


def only(found: tuple[Wait, ...]) -> tuple[Condition, str, str]:
    [wait] = found
    return wait.condition, wait.code, wait.text


@pytest.mark.spec("engine-14", "lifecycle-6")
def test_what_nothing_keeps_waits_for_nothing() -> None:
    assert waits() == ()


@pytest.mark.spec("engine-14", "engine-17")
@pytest.mark.parametrize(
    ("count", "names"), [(1, "a"), (3, "a, b, c"), (4, "a, b, c, …"), (900, "a, b, c, …")]
)
def test_dependencies_are_named(count: int, names: str) -> None:
    unmet = ["a", "b", "c", "d"][:count]

    found = waits(state=State.PENDING, waits_for=count, facts={"unmet": unmet})

    text = f"it depends on {count} task(s) that have not ended: {names}"
    assert only(found) == (Condition.STATE, "dependencies", text)
    assert found[0].figures == {"tasks": unmet, "count": count}


@pytest.mark.spec("engine-14", "engine-17")
def test_without_unmet_dependencies_a_pending_task_waits_for_its_time() -> None:
    found = waits(state=State.PENDING, run_at=NOW + 90 * SECOND, depends_on=("a",))

    assert only(found) == (Condition.STATE, "not_due", "it is due in 90.0 s")


@pytest.mark.spec("engine-14", "lifecycle-2")
@pytest.mark.parametrize(
    ("until", "reason", "text"),
    [
        (None, None, "lane slow is paused"),
        (None, "disk full", "lane slow is paused (disk full)"),
        (NOW + 90 * SECOND, None, "lane slow is paused for 90.0 s"),
        (NOW + 125 * SECOND, None, "lane slow is paused for 2 min 5 s"),
        (NOW + 3600 * SECOND, None, "lane slow is paused for 1 h"),
        (NOW + 90_061 * SECOND, None, "lane slow is paused for 1 d 1 h"),
        (NOW + SECOND // 2, "disk full", "lane slow is paused for 0.5 s (disk full)"),
        (NOW - SECOND, None, "lane slow is paused for 0.0 s"),
    ],
)
def test_a_paused_lane_says_why_and_for_how_long(
    until: int | None, reason: str | None, text: str
) -> None:
    lane = Lane(name="slow", paused=True, paused_reason=reason, paused_until=until)

    assert only(waits(lane=lane)) == (Condition.LANE, "lane_paused", text)


@pytest.mark.spec("engine-14", "engine-3")
def test_the_rate_of_a_lane_says_when_it_opens() -> None:
    found = waits(facts={"lane_opens_at": NOW + 2 * SECOND})

    text = "the rate of lane slow lets the next one start in 2.0 s"
    assert only(found) == (Condition.LANE, "lane_rate", text)
    assert found[0].figures == {"lane": "slow", "opens_at": NOW + 2 * SECOND}


@pytest.mark.spec("engine-14", "engine-3")
@pytest.mark.parametrize(
    ("key", "code", "text"),
    [
        (
            FullKey("k", 2, ["a"], NOW + SECOND),
            "key_rate",
            "the rate of key k lets the next one start in 1.0 s",
        ),
        (
            FullKey("k", 2, ["a", "b"], NOW + SECOND),
            "key_full",
            "key k is full (limit 2): held by a, b",
        ),
        (FullKey("k", 0, []), "key_full", "key k is full (limit 0): open to nobody"),
    ],
    ids=["rate", "both", "closed"],
)
def test_a_key_says_whether_its_holders_or_its_rate_are_in_the_way(
    key: FullKey, code: str, text: str
) -> None:
    assert only(waits(facts={"full_keys": [key]})) == (Condition.KEYS, code, text)


@pytest.mark.spec("engine-14", "engine-9")
def test_in_a_fifo_lane_the_head_is_named() -> None:
    line = Lane(name="slow", order=Order.FIFO)

    found = waits(lane=line, facts={"head": "first", "before": 3})

    text = "lane slow is first in, first out, and first is its head"
    assert only(found) == (Condition.ORDER, "not_head", text)
    assert found[0].figures == {"head": "first", "before": 3}
    assert waits(lane=line) == ()


@pytest.mark.spec("engine-14", "engine-9")
@pytest.mark.parametrize("order", [Order.PRIORITY, Order.FAIR])
def test_in_other_lanes_those_before_it_are_counted(order: Order) -> None:
    found = waits(lane=Lane(name="slow", order=order), facts={"before": 3})

    text = "3 task(s) come before it in lane slow"
    assert only(found) == (Condition.ORDER, "not_first", text)


@pytest.mark.spec("engine-14")
def test_every_reason_is_told_and_its_place_only_if_there_is_none() -> None:
    lane = Lane(name="slow", paused=True, capacity=1, running=1, order=Order.FIFO)
    facts = {
        "yard_paused": True,
        "lane_opens_at": NOW + SECOND,
        "full_keys": [FullKey("k", 1, ["a"])],
        "nodes": [],
        "head": "first",
        "before": 1,
    }

    found = waits(lane=lane, facts=facts, deadline=NOW)

    assert [wait.code for wait in found] == [
        "expired",
        "yard_paused",
        "lane_paused",
        "lane_full",
        "lane_rate",
        "key_full",
        "no_node",
    ]


@pytest.mark.spec("engine-14", "engine-25")
def test_a_paused_task_waits_to_be_resumed() -> None:
    assert only(waits(state=State.PAUSED)) == (
        Condition.STATE,
        "paused",
        "it is paused; resume it",
    )
