"""Old tasks go at their time of day, in steps, and when somebody asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from taskyard import Keep, NewTask, NotFound, Retention, State, Yard
from taskyard.domain.clock import SECOND, Instant, as_instant, seconds
from taskyard.domain.errors import InvalidOption, StoreUnavailable
from taskyard.domain.retention import Pruned
from taskyard.engine.maintenance.prune import Pruner
from taskyard.store.port import Mark, PruneStep
from taskyard.store.sqlite.store import SqliteStore
from tests.engine.waits import found, working

NOON = as_instant(datetime(2040, 5, 1, 12, tzinfo=UTC))
HOUR = 3600


class Steward:
    lease = 1
    lease_seconds = 30.0
    steady_for = 60.0


async def set_clock(yard: Yard, moment: Instant) -> None:
    assert isinstance(yard.store, SqliteStore)
    yard.store.clock.advance(seconds(moment - await yard.store.now()))


async def pass_time(yard: Yard, hours: float) -> None:
    await set_clock(yard, await yard.store.now() + round(hours * HOUR * SECOND))


async def ended(yard: Yard, count: int = 1) -> list[str]:
    """Tasks that are cancelled at once."""
    tasks = [NewTask(kind="echo", payload="{}") for _ in range(count)]
    await yard.enqueue(*tasks)
    for task in tasks:
        await yard.cancel(task.id)
    return [task.id for task in tasks]


async def left(yard: Yard) -> int:
    return sum((await yard.counts()).values())


async def performed(pruner: Pruner) -> int:
    """How many times it takes until it rests."""
    times = 1
    while await pruner.perform() is not None:
        times += 1
    return times


def counting_steps(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each step that is asked for is a dry one; they look at two tasks each."""
    step, asked = yard.store.prune, list[bool]()

    async def counted(
        retention: Retention, *, actor: str, after: Mark | None = None, dry_run: bool = False
    ) -> PruneStep:
        asked.append(dry_run)
        return await step(retention, actor=actor, after=after, limit=2, dry_run=dry_run)

    monkeypatch.setattr(yard.store, "prune", counted)
    return asked


@pytest.mark.spec("lifecycle-15", "engine-26")
async def test_old_tasks_go_at_the_time_of_day(yard: Yard) -> None:
    retention = Retention(cancelled=timedelta(hours=1), zone="Asia/Tokyo")
    pruner = Pruner(yard.store, yard._notifier, Steward(), retention)
    await set_clock(yard, NOON)  # 21:00 in Tokyo
    await performed(pruner)
    await ended(yard)
    await pass_time(yard, 4.99)
    await performed(pruner)
    assert await left(yard) == 1

    await pass_time(yard, 0.01)
    await ended(yard)
    await performed(pruner)
    assert await left(yard) == 1
    await pass_time(yard, 23.99)
    await performed(pruner)
    assert await left(yard) == 1
    await pass_time(yard, 0.02)
    await performed(pruner)
    assert await left(yard) == 0


@pytest.mark.spec("lifecycle-15")
async def test_between_two_times_nothing_is_looked_for(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_clock(yard, NOON)
    pruner = Pruner(yard.store, yard._notifier, Steward(), Retention())
    asked = counting_steps(yard, monkeypatch)
    await performed(pruner)
    seen = len(asked)
    for _ in range(13):
        await pass_time(yard, 1)
        assert await pruner.perform() is None
    assert len(asked) == seen
    await pass_time(yard, 1)
    await performed(pruner)
    assert asked[seen:] == [False] * 4  # the states and the audit trail


@pytest.mark.spec("lifecycle-15", "engine-26")
async def test_a_time_that_nobody_was_there_for_is_made_up_for(yard: Yard) -> None:
    await set_clock(yard, NOON)
    await ended(yard)
    await pass_time(yard, 30 * 24 + 1)  # it was not old at two, but is now
    fresh = Pruner(yard.store, yard._notifier, Steward(), Retention())
    await performed(fresh)
    assert await left(yard) == 1
    await pass_time(yard, 24)

    await performed(Pruner(yard.store, yard._notifier, Steward(), Retention()))

    assert await left(yard) == 0


@pytest.mark.spec("lifecycle-15", "engine-26")
async def test_one_performance_is_one_step_and_another_worker_goes_on(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_clock(yard, NOON)
    await ended(yard, 5)
    await pass_time(yard, 31 * 24)
    asked = counting_steps(yard, monkeypatch)
    dying = Pruner(yard.store, yard._notifier, Steward(), Retention())
    while await left(yard) == 5:
        assert await dying.perform() is not None
    assert await left(yard) == 3
    assert asked[-1] is False

    await performed(Pruner(yard.store, yard._notifier, Steward(), Retention()))

    assert await left(yard) == 0
    lines = [line for line in await yard.audit() if line.action == "prune"]
    assert [(line.actor, line.detail) for line in lines] == [("system", "3"), ("system", "2")]


@pytest.mark.spec("lifecycle-15", "engine-26")
async def test_a_worker_prunes(tmp_path: Path) -> None:
    retention = Retention(cancelled=timedelta(hours=1))
    async with Yard(f"sqlite:///{tmp_path}/yard.db", retention=retention) as yard:
        await ended(yard, 3)
        await pass_time(yard, 48)

        async def gone() -> bool | None:
            return await left(yard) == 0 or None

        async with working(yard):
            await found(yard, gone)


@pytest.mark.spec("lifecycle-15")
async def test_it_is_done_when_somebody_asks(yard: Yard) -> None:
    yard.retention = Retention(kinds={"echo": Keep(cancelled=timedelta(days=2))})
    [old] = await ended(yard)
    await pass_time(yard, 36)
    await ended(yard)
    told: list[int] = []

    assert await yard.prune() == Pruned()
    assert await yard.prune(dry_run=True, older_than=timedelta(days=1)) == Pruned(1)
    assert await left(yard) == 2
    pruned = await yard.prune(older_than=timedelta(days=1), actor="ann", told=told.append)

    assert pruned == Pruned(1)
    assert told[-1] == 1
    with pytest.raises(NotFound):
        await yard.get(old)
    assert (await yard.audit(limit=1))[0].actor == "ann"
    await pass_time(yard, 48)
    assert await yard.prune() == Pruned(1)
    assert (await yard.counts())[State.CANCELLED] == 0


@pytest.mark.spec("lifecycle-15")
def test_settings_that_make_no_sense_are_refused_when_the_yard_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="time zone"):
        Yard(f"sqlite:///{tmp_path}/yard.db", retention=Retention(zone="Nowhere"))


@pytest.mark.spec("lifecycle-15", "engine-30")
async def test_a_store_that_fails_in_the_middle_is_asked_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that was lost costs a line of the audit trail, not a task."""
    await ended(yard, 5)
    await pass_time(yard, 40 * 24)
    step, lost = yard.store.prune, False

    async def flaky(
        retention: Retention, *, actor: str, after: Mark | None, dry_run: bool
    ) -> PruneStep:
        nonlocal lost
        answer = await step(retention, actor=actor, after=after, limit=2, dry_run=dry_run)
        if answer.tasks and not dry_run and not lost:
            lost = True
            raise StoreUnavailable("the answer is lost")
        return answer

    monkeypatch.setattr(yard.store, "prune", flaky)
    pruner = Pruner(yard.store, yard._notifier, Steward(), Retention())
    with pytest.raises(StoreUnavailable):
        await performed(pruner)
    await performed(pruner)

    assert await left(yard) == 0
    lines = [line for line in await yard.audit() if line.action == "prune"]
    assert [line.detail for line in lines] == ["3", "2"]


@pytest.mark.spec("lifecycle-15", "engine-30")
async def test_a_store_that_fails_when_it_is_asked_what_was_missed_is_asked_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(yard, 3)
    await pass_time(yard, 40 * 24)
    pruner = Pruner(yard.store, yard._notifier, Steward(), Retention())

    async def unreachable(*_: object, **__: object) -> PruneStep:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(yard.store, "prune", unreachable)
        with pytest.raises(StoreUnavailable):
            await pruner.perform()
    await performed(pruner)

    assert await left(yard) == 0
