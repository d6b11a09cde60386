"""The rounds are run with real processes: small scripts that speak as a peer does."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import psutil
import pytest

from bench.speed.places import SqlitePlace
from bench.speed.rounds import Course, RunFailed, fitting, plan, rotated, run_and_count, run_once
from bench.speed.sides import Measure, Role, Side

# Leaves a mark in its folder, which must have been empty, and says what it was asked.
SPEAKS = """
import json, pathlib, sys
measure, folder, count, workers = sys.argv[1:5]
marks = list(pathlib.Path(folder).iterdir())
assert marks == [], marks
(pathlib.Path(folder) / "mark").touch()
print("a word before", flush=True)
rate = {rate} if measure != "process" else 2 * {rate}
print(json.dumps({{"rate": rate, "done": rate / int(workers), "p50_ms": 1.5, "p99_ms": 3.0}}))
"""


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


def side(folder: Path, text: str, name: str = "fake", role: Role = Role.PEER) -> Side:
    script = folder / f"{name}.py"
    script.write_text(text)
    return Side(
        name=name,
        role=role,
        measures=frozenset({Measure.ONE, Measure.PROCESS, Measure.PROCESS_BY_TWO}),
        command=(sys.executable, str(script)),
        folder=folder,
    )


async def test_a_run_begins_on_an_empty_store_and_its_last_line_counts(
    tmp_path: Path, place: SqlitePlace
) -> None:
    fake = side(tmp_path, SPEAKS.format(rate=100))

    for _ in range(2):
        assert (await run_once(fake, Measure.ONE, place, 10))["rate"] == 100
    assert (await run_once(fake, Measure.PROCESS_BY_TWO, place, 10))["done"] == 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import sys; sys.exit('out of order')", "exit code 1.*out of order"),
        ("print('no figures')", "its last line is"),
        ("print('{\"done\": 3}')", "lacks rate"),
        ("", "its last line is"),
    ],
)
async def test_a_run_that_does_not_end_well_says_why(
    tmp_path: Path, place: SqlitePlace, text: str, why: str
) -> None:
    with pytest.raises(RunFailed, match=why):
        await run_once(side(tmp_path, text), Measure.ONE, place, 10)


async def test_a_run_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, place: SqlitePlace
) -> None:
    hangs = """if True:
    import os, pathlib, time
    child = os.fork()
    if child:
        pathlib.Path('child').write_text(str(child))
    time.sleep(600)
    """

    with pytest.raises(RunFailed, match="not done"):
        await run_once(side(tmp_path, hangs), Measure.ONE, place, 10, patience=10)

    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int((tmp_path / "child").read_text())).wait(30)


async def test_a_plan_has_as_many_tasks_as_fit_the_time(tmp_path: Path, place: SqlitePlace) -> None:
    fake = side(tmp_path, SPEAKS.format(rate=3_000))

    assert (await plan(fake, Measure.ONE, place, each=2.0)).count == 6_000
    assert (await plan(fake, Measure.ONE, place, each=2.0, tasks=700)).count == 700


@pytest.mark.parametrize(
    ("measure", "rate", "count"),
    [
        (Measure.PROCESS, 124.0, 248),
        (Measure.PROCESS, 1.0, 50),
        (Measure.PROCESS, 1e6, 60_000),
        (Measure.AT_ONCE, 1_777.0, 3_600),
        (Measure.BULK, 10.0, 2_000),
        (Measure.BULK, 38_203.0, 60_000),
        (Measure.IDLE, 20.0, 40),
    ],
)
def test_slow_sides_get_fewer_tasks_and_groups_stay_whole(
    measure: Measure, rate: float, count: int
) -> None:
    assert fitting(measure, rate, each=2.0) == count


def test_as_many_tasks_as_were_asked_for_unless_that_takes_too_long() -> None:
    assert fitting(Measure.PROCESS, 12_000.0, 2.0, tasks=20_000) == 20_000
    assert fitting(Measure.PROCESS, 124.0, 2.0, tasks=20_000) == 2_480


async def test_sides_take_turns_and_one_that_fails_is_left_out(
    tmp_path: Path, place: SqlitePlace
) -> None:
    good = side(tmp_path, SPEAKS.format(rate=500), "good", Role.OWN)
    bad = side(tmp_path, "raise SystemExit('never')", "bad")
    # Its first two runs, in which it is planned, go well.
    fickle = side(
        tmp_path,
        "import pathlib, sys; runs = pathlib.Path('runs'); runs.open('a').write('x')\n"
        "if len(runs.read_text()) > 2: sys.exit('not again')\n" + SPEAKS.format(rate=50),
        "fickle",
    )
    course = Course([good, bad, fickle], place, [Measure.ONE])

    await course.prepare(each=0.2, on_next=lambda: None)
    assert course.failed.keys() == {("bad", Measure.ONE)}
    for number in range(4):
        await course.round(number, lambda _: None)

    assert "never" in course.failed["bad", Measure.ONE]
    assert "not again" in course.failed["fickle", Measure.ONE]
    answers = course.lengthened()
    assert [answer["rate"] for answer in answers["good", Measure.ONE] if answer] == [500] * 4
    assert len(answers["fickle", Measure.ONE]) == 4


async def test_a_failure_of_our_own_ends_it_all(tmp_path: Path, place: SqlitePlace) -> None:
    broken = side(tmp_path, "raise SystemExit('oh')", "ours", Role.OWN)
    course = Course([broken], place, [Measure.ONE])

    with pytest.raises(RunFailed, match="ours, one"):
        await course.prepare(each=0.2, on_next=lambda: None)


def test_another_side_begins_each_round(tmp_path: Path) -> None:
    sides = [side(tmp_path, "", name) for name in "abc"]

    firsts = [[one.name for one in rotated(sides, number)] for number in range(4)]
    assert firsts == [list("abc"), list("bca"), list("cab"), list("abc")]
    assert rotated([], 3) == []


async def test_nobody_counts_what_sqlite_is_asked(tmp_path: Path, place: SqlitePlace) -> None:
    answer, asked = await run_and_count(side(tmp_path, SPEAKS.format(rate=100)), place, 10)

    assert answer["done"] == 200
    assert asked is None
