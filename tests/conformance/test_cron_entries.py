"""Periodic tasks in the store: kept by name, and each tick started once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.cron import CatchUp, Cron, CronEntry, Ticks
from taskyard.domain.errors import InvalidOption
from taskyard.domain.state import State
from taskyard.domain.task import Clash, Dedup, Duplicate, Enqueued, OnFailure, Refused, Until
from taskyard.store.port import Store
from tests.conformance.verbs import audited, change, enqueued, new, node, seen

DUE: Instant = 1_700_000_000 * SECOND
NEXT = DUE + 60 * SECOND
FOUND = Ticks((DUE,), NEXT)


def cron(name: str = "nightly", schedule: str = "0 2 * * *", **options: Any) -> Cron:
    options.setdefault("task", new(id="pattern", payload='{"snow":"☃"}'))
    return Cron(name=name, schedule=schedule, **options)


@pytest.mark.spec("lifecycle-18")
async def test_an_entry_is_kept_as_it_was_given(store: Store, elsewhere: Store) -> None:
    entry = cron(
        task=new(
            id="pattern",
            lane="images",
            priority=2,
            keys=("a", "b"),
            group="g",
            dedup=Dedup("d", Until.START, Clash.DEBOUNCE),
            refuse_if_held=True,
            requires=("gpu",),
            on_failure=OnFailure.RUN,
            max_charged=2,
            timeout=1.5,
            delay=2.5,
        ),
        timezone="Europe/Berlin",
        catch_up=CatchUp.ALL,
        paused=True,
        declared=True,
    )
    assert await store.crons() == []

    assert await store.set_cron(entry, NEXT, actor="ann") is True

    assert await elsewhere.crons() == [CronEntry(entry, NEXT, None)]


@pytest.mark.spec("lifecycle-18")
async def test_entries_are_listed_by_name(store: Store) -> None:
    for name in ("b", "c", "a"):
        await store.set_cron(cron(name), None, actor="ann")

    assert [entry.cron.name for entry in await store.crons()] == ["a", "b", "c"]
    assert {entry.next_at for entry in await store.crons()} == {None}


@pytest.mark.spec("lifecycle-18")
async def test_an_entry_takes_the_place_of_one_of_its_name(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")
    await store.fire_cron("nightly", DUE, [new()], FOUND)
    changed = cron(schedule="*/5 * * * *", paused=True)

    assert await store.set_cron(changed, NEXT + 1, actor="bob") is True

    assert await store.crons() == [CronEntry(changed, NEXT + 1, DUE)]  # what was, was


@pytest.mark.spec("lifecycle-18")
async def test_the_same_entry_changes_nothing(store: Store) -> None:
    for declared in (True, False):
        same = cron(f"declared {declared}", declared=declared)
        await store.set_cron(same, DUE, actor="ann")

        assert await store.set_cron(same, NEXT, actor="bob") is False

        assert CronEntry(same, DUE, None) in await store.crons()
    assert [actor for actor, *_ in await audited(store, "set_cron")] == ["ann", "ann"]


@pytest.mark.spec("lifecycle-18")
async def test_a_program_does_not_change_what_an_operator_has_set(store: Store) -> None:
    declared = cron(declared=True)
    await store.set_cron(declared, DUE, actor="program")
    newer = msgspec.structs.replace(declared, schedule="1 2 * * *")
    assert await store.set_cron(newer, DUE, actor="program") is True
    by_hand = cron(schedule="2 2 * * *")
    assert await store.set_cron(by_hand, NEXT, actor="ann") is True

    assert await store.set_cron(newer, DUE, actor="program") is False

    assert await store.crons() == [CronEntry(by_hand, NEXT, None)]
    again = cron(schedule="3 2 * * *")
    assert await store.set_cron(again, NEXT, actor="ann") is True


@pytest.mark.spec("lifecycle-18")
async def test_an_entry_can_be_dropped(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")
    await store.set_cron(cron("other"), DUE, actor="ann")

    assert await store.drop_cron("nightly", actor="bob") is True
    assert await store.drop_cron("nightly", actor="bob") is False

    assert [entry.cron.name for entry in await store.crons()] == ["other"]
    assert await store.fire_cron("nightly", DUE, [new()], FOUND) is None
    assert not any((await store.counts()).values())


@pytest.mark.spec("lifecycle-18", "lifecycle-17")
async def test_changes_are_written_down_and_ticks_are_not(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")
    await store.fire_cron("nightly", DUE, [new()], FOUND)
    await store.drop_cron("nightly", actor="bob")
    await store.drop_cron("nightly", actor="bob")

    lines = await store.audit()

    assert [(line.actor, line.action, line.subject) for line in reversed(lines)] == [
        ("ann", "set_cron", "cron:nightly"),
        ("bob", "drop_cron", "cron:nightly"),
    ]


@pytest.mark.spec("lifecycle-18")
async def test_a_tick_saves_its_tasks_and_waits_for_the_next(store: Store) -> None:
    worker = await node(store)
    await store.set_cron(cron(), DUE, actor="ann")
    tasks = [new(payload=f"[{at}]") for at in range(2)]

    answers = await store.fire_cron("nightly", DUE, tasks, FOUND)

    assert answers == [Enqueued(task.id) for task in tasks]
    assert await store.crons() == [CronEntry(cron(), NEXT, DUE)]
    assert [task.payload for task in await worker.claim(10)] == ["[0]", "[1]"]


@pytest.mark.spec("lifecycle-18")
async def test_a_tick_is_started_once(store: Store, elsewhere: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")

    answers = await asyncio.gather(
        *(place.fire_cron("nightly", DUE, [new()], FOUND) for place in (store, elsewhere) * 5)
    )

    assert sum(answer is not None for answer in answers) == 1
    assert (await store.counts())[State.QUEUED] == 1
    assert await store.fire_cron("nightly", NEXT, [new()], Ticks((NEXT,), None)) is not None
    assert await store.fire_cron("nightly", NEXT, [new()], Ticks((NEXT,), None)) is None
    assert await store.crons() == [CronEntry(cron(), None, NEXT)]


@pytest.mark.spec("lifecycle-18")
async def test_a_tick_nobody_waits_for_starts_nothing(store: Store) -> None:
    await store.set_cron(cron(), NEXT, actor="ann")
    await store.set_cron(cron("paused", paused=True), DUE, actor="ann")

    assert await store.fire_cron("nightly", DUE, [new()], FOUND) is None
    assert await store.fire_cron("paused", DUE, [new()], FOUND) is None
    assert await store.fire_cron("unheard of", DUE, [new()], FOUND) is None

    assert not any((await store.counts()).values())
    assert [entry.next_at for entry in await store.crons()] == [NEXT, DUE]


@pytest.mark.spec("lifecycle-18")
async def test_of_several_ticks_the_last_that_was_started_is_remembered(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")
    later = NEXT + 60 * SECOND

    await store.fire_cron("nightly", DUE, [new(), new()], Ticks((DUE, NEXT), later))
    assert await store.crons() == [CronEntry(cron(), later, NEXT)]

    await store.fire_cron("nightly", later, [], Ticks((), later + 1))
    assert await store.crons() == [CronEntry(cron(), later + 1, NEXT)]


@pytest.mark.spec("lifecycle-18")
async def test_a_tick_that_starts_nothing_is_over_all_the_same(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")

    assert await store.fire_cron("nightly", DUE, [], Ticks((), NEXT)) == []

    [entry] = await store.crons()
    assert (entry.next_at, entry.last_at) == (NEXT, None)


@pytest.mark.spec("lifecycle-18", "engine-15")
async def test_a_tick_enqueues_as_anyone_does(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")
    await change(store, "short", max_depth=0)
    first = await enqueued(store, dedup=Dedup("d"), payload="[0]")
    tasks = [
        new(dedup=Dedup("d", clash=Clash.REPLACE), payload="[1]"),
        new(lane="short"),
        new(depends_on=(first,)),
    ]

    answers = await store.fire_cron("nightly", DUE, tasks, FOUND)

    assert answers is not None
    assert answers[0] == Duplicate(first, changed=True)
    assert isinstance(answers[1], Refused)
    assert (await seen(store, tasks[2].id)).waits_for == 1
    assert (await seen(store, first)).payload == "[1]"


@pytest.mark.spec("lifecycle-18")
async def test_a_tick_that_cannot_be_started_stays(store: Store) -> None:
    await store.set_cron(cron(), DUE, actor="ann")

    with pytest.raises(InvalidOption):
        await store.fire_cron("nightly", DUE, [new(depends_on=("nobody",))], FOUND)

    assert await store.crons() == [CronEntry(cron(), DUE, None)]


@pytest.mark.spec("lifecycle-18")
async def test_a_wrong_schedule_is_refused(store: Store) -> None:
    with pytest.raises(InvalidOption, match="is no schedule"):
        await store.set_cron(cron(schedule="every night"), DUE, actor="ann")
    with pytest.raises(InvalidOption, match="no time zone"):
        await store.set_cron(cron(timezone="Europe/Atlantis"), DUE, actor="ann")

    assert await store.crons() == []
