"""Periodic tasks: each tick is started once, and one that cannot be started harms nobody."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from taskyard import State, TaskQuery, Yard
from taskyard.domain.clock import SECOND, Instant, as_datetime
from taskyard.domain.cron import MAX_CAUGHT_UP, CatchUp, Cron, CronEntry, Ticks, tick_id
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.lane import LaneChange
from taskyard.domain.task import Enqueue, NewTask
from taskyard.engine.maintenance import cron as module
from taskyard.engine.maintenance.cron import CronStarter
from tests.engine.waits import found, working

MINUTE: Instant = 60 * SECOND
HOUR: Instant = 60 * MINUTE


class Steward:
    lease = 1
    lease_seconds = 30.0
    steady_for = 60.0


@pytest.fixture
def starter(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> CronStarter:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    return CronStarter(yard.store, yard._notifier, Steward())


def hourly(name: str, **changes: object) -> Cron:
    cron = Cron(
        name=name,
        schedule="0 * * * *",
        task=NewTask(kind="tidy", payload='{"days":7}', lane="upkeep"),
        catch_up=CatchUp.ALL,
    )
    return msgspec.structs.replace(cron, **changes)


async def hours_ago(yard: Yard, hours: int) -> Instant:
    """A full hour; this one for 0."""
    return (await yard.store.now()) // HOUR * HOUR - hours * HOUR


async def entry(yard: Yard, name: str) -> CronEntry:
    return next(entry for entry in await yard.store.crons() if entry.cron.name == name)


async def started(yard: Yard) -> list[str]:
    return sorted(task.id for task in await yard.find(TaskQuery(limit=1000)))


@pytest.mark.spec("lifecycle-18", "engine-26")
async def test_a_tick_starts_its_task_under_an_id_that_tells_which(
    yard: Yard, starter: CronStarter
) -> None:
    due = await hours_ago(yard, 0)
    await yard.store.set_cron(hourly("tidy"), due, actor="ann")
    rest = await starter.perform()
    [task] = await yard.find(TaskQuery())
    assert task.id == f"cron:tidy:{as_datetime(due).isoformat()}" == tick_id("tidy", due)
    assert (task.kind, task.lane, task.payload) == ("tidy", "upkeep", '{"days":7}')
    assert task.state is State.QUEUED
    seen = await entry(yard, "tidy")
    assert (seen.last_at, seen.next_at) == (due, due + HOUR)
    assert rest is not None
    assert 0 <= rest <= 3600


@pytest.mark.spec("lifecycle-18")
@pytest.mark.parametrize(("policy", "hours"), [("all", [3, 2, 1, 0]), ("one", [0])])
async def test_ticks_that_were_missed_are_caught_up_with(
    yard: Yard, starter: CronStarter, policy: str, hours: list[int]
) -> None:
    cron = hourly("tidy", catch_up=CatchUp(policy))
    await yard.store.set_cron(cron, await hours_ago(yard, 3), actor="ann")
    await starter.perform()
    wanted = [tick_id("tidy", await hours_ago(yard, ago)) for ago in hours]
    assert await started(yard) == sorted(wanted)
    assert (await entry(yard, "tidy")).last_at == await hours_ago(yard, 0)
    await starter.perform()
    assert await started(yard) == sorted(wanted)


@pytest.mark.spec("lifecycle-18")
async def test_ticks_may_also_be_skipped(yard: Yard, starter: CronStarter) -> None:
    schedule = "0 0 1 1 *"  # the first of a year
    cron = hourly("tidy", catch_up=CatchUp.SKIP, schedule=schedule)
    await yard.store.set_cron(cron, cron.after(0), actor="ann")
    await starter.perform()
    assert await started(yard) == []
    seen = await entry(yard, "tidy")
    assert seen.next_at is not None
    assert seen.next_at > await yard.store.now()
    assert seen.last_at is None


@pytest.mark.spec("lifecycle-18")
async def test_an_entry_that_lay_still_for_years_is_caught_up_with_from_its_last_ticks(
    yard: Yard, starter: CronStarter
) -> None:
    await yard.store.set_cron(hourly("tidy", schedule="* * * * *"), SECOND * 60, actor="ann")
    before = await yard.store.now()
    await starter.perform()
    ids = await started(yard)
    assert len(ids) == MAX_CAUGHT_UP
    assert tick_id("tidy", before // MINUTE * MINUTE) in ids
    seen = await entry(yard, "tidy")
    assert seen.next_at is not None
    assert seen.next_at > before


@pytest.mark.spec("lifecycle-18")
async def test_what_is_paused_or_not_due_starts_nothing(yard: Yard, starter: CronStarter) -> None:
    await yard.store.set_cron(hourly("off", paused=True), await hours_ago(yard, 5), actor="ann")
    await yard.store.set_cron(hourly("later"), await hours_ago(yard, -2), actor="ann")
    rest = await starter.perform()
    assert await started(yard) == []
    assert rest is not None
    assert 3600 < rest <= 7200


@pytest.mark.spec("lifecycle-18")
async def test_without_entries_it_sleeps_as_long_as_it_may(starter: CronStarter) -> None:
    assert await starter.perform() is None


@pytest.mark.spec("lifecycle-18")
@pytest.mark.parametrize(
    "broken",
    [
        ({"schedule": "61 * * * *"}, "is no schedule"),
        ({"timezone": "Mars/Olympus"}, "no time zone"),
        ({"task": NewTask(kind="tidy", payload="{}", id="t", priority=99)}, "priority must be"),
        (
            {"task": NewTask(kind="tidy", payload="{}", id="t", depends_on=("gone",))},
            "does not exist",
        ),
    ],
)
async def test_an_entry_that_cannot_be_started_is_told_once_and_harms_no_other(
    yard: Yard,
    starter: CronStarter,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    broken: tuple[dict[str, object], str],
) -> None:
    changes, why = broken
    caplog.set_level(logging.ERROR, "taskyard")
    due = await hours_ago(yard, 0)
    with monkeypatch.context() as formerly:  # it was sound for the release that kept it
        formerly.setattr(Cron, "check", lambda _: None)
        await yard.store.set_cron(hourly("a-broken", **changes), due, actor="ann")
    await yard.store.set_cron(hourly("tidy"), due, actor="ann")
    rest = await starter.perform()
    assert rest is not None
    await starter.perform()
    assert await started(yard) == [tick_id("tidy", due)]
    [told] = [one for one in caplog.records if "cannot be started" in one.message]
    assert why in told.message

    await yard.store.set_cron(hourly("a-broken"), due, actor="ann")
    await starter.perform()
    assert await started(yard) == [tick_id("a-broken", due), tick_id("tidy", due)]


@pytest.mark.spec("lifecycle-18")
async def test_a_tick_that_is_refused_is_told(
    yard: Yard, starter: CronStarter, caplog: pytest.LogCaptureFixture
) -> None:
    await yard.store.set_lane("upkeep", LaneChange(max_depth=0), actor="ann")
    await yard.store.set_cron(hourly("tidy"), await hours_ago(yard, 0), actor="ann")
    await starter.perform()
    assert await started(yard) == []
    assert "a tick was refused" in caplog.text
    assert "lane upkeep is full" in caplog.text


@pytest.mark.spec("lifecycle-18")
async def test_of_several_at_once_each_tick_is_started_by_one(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, starter: CronStarter
) -> None:
    for n in range(10):
        await yard.store.set_cron(hourly(f"c{n}"), await hours_ago(yard, 4), actor="ann")
    fire, fired = yard.store.fire_cron, list[list[Enqueue]]()

    async def noted(
        name: str, due: Instant, tasks: list[NewTask], found: Ticks
    ) -> list[Enqueue] | None:
        answers = await fire(name, due, tasks, found)
        if answers is not None:
            fired.append(answers)
        return answers

    monkeypatch.setattr(yard.store, "fire_cron", noted)
    others = [CronStarter(yard.store, yard._notifier, Steward()) for _ in range(4)]
    await asyncio.gather(starter.perform(), *(other.perform() for other in others))
    assert len(await started(yard)) == 50
    assert len(fired) == 10


async def test_a_store_that_is_away_is_not_the_entrys_fault(
    yard: Yard, starter: CronStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await yard.store.set_cron(hourly("tidy"), await hours_ago(yard, 0), actor="ann")

    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as during:
        during.setattr(yard.store, "fire_cron", away)
        with pytest.raises(StoreUnavailable):
            await starter.perform()
    await starter.perform()
    assert len(await started(yard)) == 1


@pytest.mark.spec("lifecycle-18", "engine-26")
async def test_workers_start_what_is_due_and_run_it(yard: Yard) -> None:
    @yard.task(lane="upkeep")
    async def tidy(days: int) -> int:
        return days

    async with working(yard):
        due = await hours_ago(yard, 0)
        await yard.store.set_cron(hourly("tidy"), due, actor="ann")
        handle = yard.handle(tick_id("tidy", due))

        async def is_there() -> bool | None:
            return await yard.store.get(handle.id) is not None or None

        await found(yard, is_there)
        assert await handle.result(20) == 7
