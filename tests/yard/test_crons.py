"""Periodic tasks: declared, registered by workers, and changed by operators."""

from __future__ import annotations

import pytest

from taskyard import NotFound, Yard
from taskyard.domain.cron import CatchUp, CronEntry
from taskyard.domain.errors import InvalidArguments, InvalidHandler, InvalidOption
from tests.engine.waits import working

pytestmark = pytest.mark.spec("lifecycle-18")


async def entry(yard: Yard, name: str) -> CronEntry:
    return next(entry for entry in await yard.crons() if entry.cron.name == name)


def declared(url: str, schedule: str = "0 3 * * *") -> Yard:
    """A program, as it is after a deploy."""
    yard = Yard(url)

    @yard.cron(schedule, timezone="Europe/Berlin", catch_up="all")
    @yard.task(lane="upkeep")
    async def tidy(days: int = 7) -> None: ...

    yard.add_cron("tidy everything", "0 4 * * 0", tidy.options(priority=9).new(days=0))
    return yard


async def test_a_worker_tells_the_store_what_its_program_declares(yard: Yard) -> None:
    async with declared(yard.url) as program:
        assert await yard.crons() == []
        async with working(program):
            tidy, everything = await entry(yard, "tidy"), await entry(yard, "tidy everything")
    assert (tidy.cron.schedule, tidy.cron.timezone) == ("0 3 * * *", "Europe/Berlin")
    assert (tidy.cron.catch_up, tidy.cron.declared) == (CatchUp.ALL, True)
    assert (tidy.cron.task.kind, tidy.cron.task.lane) == ("tidy", "upkeep")
    assert tidy.next_at == tidy.cron.after(await yard.store.now())
    assert (everything.cron.task.payload, everything.cron.task.priority) == ('{"days":0}', 9)


async def test_a_deploy_changes_what_is_declared_and_nothing_else(yard: Yard) -> None:
    async with declared(yard.url) as program, working(program):
        before = await yard.audit()
    async with declared(yard.url) as program, working(program):
        set_again = [line for line in await yard.audit() if line.action == "set_cron"]
    assert len(set_again) == len([line for line in before if line.action == "set_cron"]) == 2
    async with declared(yard.url, "30 3 * * *") as program, working(program):
        assert (await entry(yard, "tidy")).cron.schedule == "30 3 * * *"


async def test_what_an_operator_changes_stays(yard: Yard) -> None:
    async with declared(yard.url) as program, working(program):
        kept = (await entry(yard, "tidy")).cron
    await yard.set_cron("tidy", "0 5 * * *", kept.task, timezone="UTC", actor="ann")
    await yard.pause_cron("tidy everything", actor="ann")
    async with declared(yard.url, "30 3 * * *") as program, working(program):
        assert (await entry(yard, "tidy")).cron.schedule == "0 5 * * *"
        assert (await entry(yard, "tidy everything")).cron.paused
    await yard.resume_cron("tidy everything", actor="ann")
    assert not (await entry(yard, "tidy everything")).cron.paused
    await yard.drop_cron("tidy", actor="ann")
    async with declared(yard.url, "30 3 * * *") as program, working(program):
        assert (await entry(yard, "tidy")).cron.schedule == "30 3 * * *", "dropped, and back"


async def test_made_at_run_time(yard: Yard) -> None:
    @yard.task()
    async def mail(to: str) -> None: ...

    assert await yard.set_cron("ann's digest", "0 8 * * 1-5", mail.new("ann"), catch_up="skip")
    assert not await yard.set_cron("ann's digest", "0 8 * * 1-5", mail.new("ann"), catch_up="skip")
    assert (await entry(yard, "ann's digest")).cron.catch_up is CatchUp.SKIP
    await yard.drop_cron("ann's digest")
    assert await yard.crons() == []


async def test_what_is_wrong_is_said(yard: Yard) -> None:
    @yard.task()
    async def mail(to: str) -> None: ...

    with pytest.raises(InvalidOption, match="no schedule"):
        yard.add_cron("a", "every day", mail.new("ann"))
    with pytest.raises(InvalidOption, match="no time zone"):
        yard.add_cron("a", "0 8 * * *", mail.new("ann"), timezone="Mars/Base")
    with pytest.raises(InvalidOption, match="catch_up is skip, one, all"):
        yard.add_cron("a", "0 8 * * *", mail.new("ann"), catch_up="some")  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="to"):
        yard.cron("0 8 * * *")(mail)
    yard.add_cron("a", "0 8 * * *", mail.new("ann"))
    with pytest.raises(InvalidHandler, match="two crons called a"):
        yard.add_cron("a", "0 9 * * *", mail.new("ann"))
    with pytest.raises(InvalidHandler, match=r"above @yard\.task"):
        yard.cron("0 8 * * *")(print)  # type: ignore[arg-type]
    for verb in (yard.pause_cron, yard.resume_cron, yard.drop_cron):
        with pytest.raises(NotFound, match="no cron b"):
            await verb("b")
