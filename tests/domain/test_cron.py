"""Which moments a schedule means, in which time zone, and what is made up for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from taskyard.domain.clock import SECOND, Instant, as_datetime, as_instant
from taskyard.domain.cron import MAX_CAUGHT_UP, CatchUp, Cron, CronEntry, Ticks, tick_id, ticks
from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import MAX_NAME, NewTask, check_name

MINUTE = 60 * SECOND


def cron(schedule: str = "0 2 * * *", **options: Any) -> Cron:
    options.setdefault("task", NewTask(kind="work", payload="{}"))
    return Cron(name="nightly", schedule=schedule, **options)


def at(text: str) -> Instant:
    return as_instant(datetime.fromisoformat(text).replace(tzinfo=UTC))


def following(entry: Cron, since: str, count: int) -> list[str]:
    """The next ticks, in UTC."""
    found: list[str] = []
    moment: Instant | None = at(since)
    for _ in range(count):
        assert moment is not None
        moment = entry.after(moment)
        assert moment is not None
        found.append(as_datetime(moment).strftime("%Y-%m-%dT%H:%M"))
    return found


@pytest.mark.spec("lifecycle-18")
def test_a_name_leaves_room_for_the_ids_of_ticks() -> None:
    room = MAX_NAME - len("cron::2026-01-01T02:00:00+00:00")
    longest = msgspec.structs.replace(cron(), name="x" * room)
    longest.check()
    check_name("id", tick_id(longest.name, at("2026-01-01T02:00")))
    with pytest.raises(InvalidOption, match=f"longer than {room} characters"):
        msgspec.structs.replace(longest, name="x" * (room + 1)).check()


@pytest.mark.spec("lifecycle-18")
def test_a_schedule_is_read_in_utc_unless_told_otherwise() -> None:
    assert following(cron(), "2026-01-01T00:00", 2) == ["2026-01-01T02:00", "2026-01-02T02:00"]
    assert following(cron(), "2026-01-01T02:00", 1) == ["2026-01-02T02:00"]


@pytest.mark.spec("lifecycle-18")
def test_a_schedule_has_its_time_zone() -> None:
    tokyo = cron(timezone="Asia/Tokyo")
    assert following(tokyo, "2026-01-01T00:00", 2) == ["2026-01-01T17:00", "2026-01-02T17:00"]
    kathmandu = cron("30 * * * *", timezone="Asia/Kathmandu")
    assert following(kathmandu, "2026-01-01T00:00", 2) == ["2026-01-01T00:45", "2026-01-01T01:45"]


@pytest.mark.spec("lifecycle-18")
def test_a_day_has_its_tick_though_the_clock_leaps_over_it() -> None:
    berlin = cron("30 2 * * *", timezone="Europe/Berlin")

    days = following(berlin, "2026-03-27T12:00", 3)  # at 02:00 on the 29th it is 03:00

    assert days[0] == "2026-03-28T01:30"
    assert days[1].startswith("2026-03-29T01:")
    assert days[2] == "2026-03-30T00:30"


@pytest.mark.spec("lifecycle-18")
def test_a_day_has_one_tick_though_the_clock_shows_it_twice() -> None:
    berlin = cron("30 2 * * *", timezone="Europe/Berlin")

    days = following(berlin, "2026-10-24T12:00", 2)  # at 03:00 on the 25th it is 02:00 again

    assert [day[:10] for day in days] == ["2026-10-25", "2026-10-26"]
    assert days[0] in ("2026-10-25T00:30", "2026-10-25T01:30")


@pytest.mark.spec("lifecycle-18")
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24"])
def test_every_hour_is_every_hour_when_the_clocks_change(day: str) -> None:
    moments = following(cron("0 * * * *", timezone="Europe/Berlin"), f"{day}T20:30", 10)

    begin = datetime.fromisoformat(f"{day}T21:00")
    hours = [(begin + timedelta(hours=n)).strftime("%Y-%m-%dT%H:%M") for n in range(10)]
    assert moments == hours


@pytest.mark.spec("lifecycle-18")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "every night"}, "'every night' is no schedule"),
        ({"schedule": "*/5 * * * * *"}, "6 fields"),
        ({"schedule": "0 0 30 2 *"}, "is no schedule"),
        ({"schedule": "61 * * * *"}, "five fields: minute hour day month weekday"),
        ({"timezone": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis'"),
        ({"timezone": "../../etc/passwd"}, "no time zone"),
        ({"timezone": ""}, "no time zone"),
        ({"task": NewTask(kind="", payload="{}", id="t")}, "kind must not be empty"),
    ],
    ids=str,
)
def test_a_wrong_entry_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        cron(**options).check()


def entry(catch_up: CatchUp, next_at: Instant | None, schedule: str = "*/10 * * * *") -> CronEntry:
    return CronEntry(cron(schedule, catch_up=catch_up), next_at)


START = at("2026-01-01T00:00")


@pytest.mark.spec("lifecycle-18")
@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_tick_that_has_just_come_is_started(catch_up: CatchUp) -> None:
    for late in (0, 5 * SECOND, 59 * SECOND):
        found = ticks(entry(catch_up, START), START + late)

        assert found == Ticks((START,), START + 10 * MINUTE)


@pytest.mark.spec("lifecycle-18")
@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_tick_that_has_not_come_is_waited_for(catch_up: CatchUp) -> None:
    assert ticks(entry(catch_up, START), START - 1) == Ticks((), START)
    assert ticks(entry(catch_up, None), START) == Ticks((), None)


@pytest.mark.spec("lifecycle-18")
def test_what_was_missed_is_made_up_for_as_the_entry_says() -> None:
    now = START + 35 * MINUTE
    missed = [START + n * 10 * MINUTE for n in range(4)]
    following = START + 40 * MINUTE

    assert ticks(entry(CatchUp.ALL, START), now) == Ticks(tuple(missed), following)
    assert ticks(entry(CatchUp.ONE, START), now) == Ticks((missed[-1],), following)
    assert ticks(entry(CatchUp.SKIP, START), now) == Ticks((), following)


@pytest.mark.spec("lifecycle-18")
def test_skip_starts_the_one_that_has_just_come_after_those_that_were_missed() -> None:
    now = START + 30 * MINUTE + SECOND

    assert ticks(entry(CatchUp.SKIP, START), now).start == (START + 30 * MINUTE,)


@pytest.mark.spec("lifecycle-18")
def test_the_latest_thousand_are_made_up_for() -> None:
    now = START + 5000 * MINUTE

    found = ticks(entry(CatchUp.ALL, START, "* * * * *"), now)

    assert len(found.start) == MAX_CAUGHT_UP
    assert (found.start[-1], found.next_at) == (now, now + MINUTE)
    assert found.start[0] == now - (MAX_CAUGHT_UP - 1) * MINUTE


@pytest.mark.spec("lifecycle-18")
def test_the_last_tick_of_all_is_started() -> None:
    once = cron("0 0 29 2 *")
    moment = at("2096-02-29T00:00")
    found = ticks(CronEntry(once, moment), moment)

    assert found.start == (moment,)
    assert found.next_at is None or found.next_at > moment
