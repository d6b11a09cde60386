"""Lanes and keys through the yard; what they do is shown by the conformance suite."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskyard import Rate, State, TaskRefused, Yard
from taskyard.domain.clock import as_instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import Lane, Order


async def lane_of(yard: Yard, name: str) -> Lane:
    return next(lane for lane in await yard.lanes() if lane.name == name)


@pytest.mark.spec("engine-3")
async def test_a_lane_is_changed_bit_by_bit(yard: Yard) -> None:
    await yard.set_lane("calls", capacity=4, rate=Rate(10, burst=5), order="fair")
    await yard.set_lane("calls", max_depth=3)
    lane = await lane_of(yard, "calls")
    assert (lane.capacity, lane.max_depth, lane.rate, lane.order) == (
        4,
        3,
        Rate(10, burst=5),
        Order.FAIR,
    )
    await yard.set_lane("calls", capacity=None, rate=None, order=Order.PRIORITY, ageing=60)
    lane = await lane_of(yard, "calls")
    assert (lane.capacity, lane.max_depth, lane.rate, lane.order, lane.ageing) == (
        None,
        3,
        None,
        Order.PRIORITY,
        60,
    )


@pytest.mark.spec("engine-3")
async def test_beyond_its_depth_a_lane_refuses(yard: Yard) -> None:
    @yard.task(lane="calls")
    async def call() -> None: ...

    await yard.set_lane("calls", max_depth=1)
    await call.enqueue()
    with pytest.raises(TaskRefused, match="lane calls is full: 1 tasks wait"):
        await call.enqueue()
    assert (await yard.counts())[State.QUEUED] == 1


@pytest.mark.spec("lifecycle-2")
async def test_a_pause_with_an_end(yard: Yard) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    lane = await yard.pause_lane("calls", until=moment, reason="maintenance")
    assert (lane.paused, lane.paused_reason) == (True, "maintenance")
    assert lane.paused_until == as_instant(moment)
    now = await yard.store.now()
    lane = await yard.pause_lane("calls", for_=timedelta(minutes=5))
    assert lane.paused_until is not None
    assert now + 300_000_000 <= lane.paused_until <= await yard.store.now() + 300_000_000
    lane = await yard.pause_lane("calls")
    assert (lane.paused, lane.paused_until) == (True, None), "an explicit pause has no end"
    assert not (await yard.resume_lane("calls")).paused

    await yard.pause(for_=timedelta(minutes=5), actor="night shift")
    assert (await yard.audit())[0].actor == "night shift"
    await yard.resume()


async def test_a_rate_of_keys(yard: Yard) -> None:
    await yard.limit_key("host:*", 4, rate=Rate(2, 60))
    await yard.limit_key("disk", rate=Rate(1))
    rules = {rule.pattern: rule for rule in await yard.key_rules()}
    assert (rules["host:*"].limit, rules["host:*"].rate) == (4, Rate(2, 60))
    assert (rules["disk"].limit, rules["disk"].rate) == (1, Rate(1))
    await yard.limit_key("disk", None)
    assert [rule.pattern for rule in await yard.key_rules()] == ["host:*"]


async def test_what_is_wrong_is_said_and_changes_nothing(yard: Yard) -> None:
    with pytest.raises(InvalidOption, match="an order is priority, fifo, fair"):
        await yard.set_lane("calls", order="random")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="either until or for_"):
        await yard.pause_lane("calls", until=datetime.now(UTC), for_=timedelta(1))
    with pytest.raises(InvalidOption, match="a time from now on"):
        await yard.pause_lane("calls", for_=timedelta(0))
    with pytest.raises(InvalidOption, match="has no time zone"):
        await yard.pause(until=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidOption, match="a rule has a limit"):
        await yard.limit_key("a", None, rate=Rate(1))
    with pytest.raises(InvalidOption, match="starts"):
        await yard.set_lane("calls", rate=Rate(0))
    assert not any(lane.name == "calls" for lane in await yard.lanes())


@pytest.mark.spec("lifecycle-7")
async def test_deleting_a_subscription_cancels_its_tasks_as_the_system(yard: Yard) -> None:
    @yard.task()
    async def download(number: int) -> None: ...

    for sub in (1, 2):
        of_sub = download.options(key=f"sub:{sub}")
        await yard.enqueue(*(of_sub.new(number) for number in range(150)))
        await of_sub.options(delay=100).enqueue(0)
    paused = await download.options(key="sub:1").enqueue(0)
    await paused.pause()

    assert await yard.cancel_all(key="sub:1", actor="system") == 152
    assert await yard.cancel_all(key="sub:1", actor="system") == 0
    counts = await yard.counts()
    assert (counts[State.CANCELLED], counts[State.QUEUED], counts[State.PENDING]) == (152, 150, 1)
    assert (await yard.audit())[0].actor == "system"
    with pytest.raises(InvalidOption, match="a key, a kind or a lane"):
        await yard.cancel_all()
