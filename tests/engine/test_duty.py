"""Duties are done by one at a time."""

from __future__ import annotations

import asyncio

import pytest

from taskyard import Yard
from taskyard.engine.maintenance.duty import Duty, Shift


class Sweep(Duty):
    name = "sweep"
    heeds_hints = True
    done = 0

    async def perform(self) -> float | None:
        type(self).done += 1
        return None


class Steward:
    lease = 2
    lease_seconds = 30.0
    steady_for = 0.0


class Other(Steward):
    lease = 3


@pytest.mark.spec("engine-26")
async def test_hints_do_not_make_others_ask_for_a_duty_again_and_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await yard.store.take_duty("sweep", 1, 60)
    take, asked = yard.store.take_duty, asyncio.Event()
    times = 0

    async def counted(name: str, holder: int, seconds: float) -> bool:
        nonlocal times
        times += 1
        asked.set()
        return await take(name, holder, seconds)

    monkeypatch.setattr(yard.store, "take_duty", counted)
    sweep = Sweep(yard.store, yard._notifier, Steward())
    sweep.start()
    await asked.wait()
    for _ in range(10):
        yard._notifier.ring()
        await asyncio.sleep(0.03)
    await sweep.stop()
    assert times == 1
    assert Sweep.done == 0


@pytest.mark.spec("engine-26")
async def test_those_who_do_not_have_the_shift_ask_for_nothing_else(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["sweep", "dust"]
    mine, theirs = (Shift(yard.store, steward, names) for steward in (Steward(), Other()))
    assert await mine.is_mine()
    take, asked = yard.store.take_duty, list[str]()

    async def noted(name: str, holder: int, seconds: float) -> bool:
        asked.append(name)
        return await take(name, holder, seconds)

    monkeypatch.setattr(yard.store, "take_duty", noted)
    duties = [Sweep(yard.store, yard._notifier, Other()) for _ in names]
    for duty in duties:
        duty.shift = theirs
    assert [await duty._is_mine() for duty in duties] == [False, False]
    assert asked == ["shift: dust, sweep"]


@pytest.mark.spec("engine-26")
async def test_a_program_with_other_duties_has_another_shift(yard: Yard) -> None:
    old = Shift(yard.store, Steward(), ["sweep"])
    new = Shift(yard.store, Other(), ["sweep", "dust"])

    assert await old.is_mine()
    assert await new.is_mine()
