"""Runs the sides in turns, each time on an empty store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO

import msgspec

from bench.speed.places import Asked, Place
from bench.speed.sides import Measure, Role, Side

Answer = dict[str, float]
Key = tuple[str, Measure]  # a side's name and what it measures

BEGIN = b"begin"  # a line that a side may say before it begins to process what it has enqueued
PATIENCE = 180.0  # seconds; no run is planned to last a tenth of it
MOST_FAILURES = 2

FIRST = {Measure.BULK: 2_000, Measure.ONE: 50, Measure.IDLE: 5, Measure.IDLE_HERE: 5}
FIRST_TASKS = 200
MOST = {Measure.ONE: 20_000, Measure.IDLE: 100, Measure.IDLE_HERE: 100}
MOST_TASKS = 60_000
GRAIN = {Measure.AT_ONCE: 100, Measure.BULK: 1_000}
GROWTH = 25  # from one try to the next
ENOUGH = 4  # a run that has at most so many times the tasks of a try needs no other try
LONGEST = 20.0  # seconds for a run of as many tasks as were asked for; a slow side gets fewer


class RunFailed(Exception):
    """A side did not end well, or did not say what it should."""


# --- one run ---


async def run_once(
    side: Side, measure: Measure, place: Place, count: int, patience: float = PATIENCE
) -> Answer:
    answer, _ = await _run(side, measure, place, count, patience=patience)
    return answer


async def run_and_count(side: Side, place: Place, count: int) -> tuple[Answer, Asked | None]:
    """Process; and what the store is asked for each task.

    With what it is asked to enqueue them, for a side that does not say when it begins.
    """
    async with place.counting():
        answer, before = await _run(side, Measure.PROCESS, place, count, counting=True)
        after = await place.asked()
    return answer, None if before is None or after is None else after.since(before, count)


async def _run(
    side: Side,
    measure: Measure,
    place: Place,
    count: int,
    *,
    patience: float = PATIENCE,
    counting: bool = False,
) -> tuple[Answer, Asked | None]:
    """The answer, and what the store had been asked when processing began."""
    url = await place.empty()
    asked = await place.asked() if counting else None
    last = b""
    with tempfile.TemporaryFile() as errors:
        async with _process(side, side.argv(measure, url, count), errors) as process:
            assert process.stdout is not None
            try:
                async with asyncio.timeout(patience):
                    async for line in process.stdout:
                        if line.strip() == BEGIN:
                            asked = await place.asked() if counting else None
                        elif line.strip():
                            last = line
                    code = await process.wait()
            except TimeoutError:
                raise RunFailed(f"not done after {patience:.0f} s{_tail(errors)}") from None
        if code:
            raise RunFailed(f"exit code {code}{_tail(errors)}")
        try:
            answer = msgspec.json.decode(last, type=Answer)
        except msgspec.DecodeError:
            raise RunFailed(f"its last line is {last[:100]!r}{_tail(errors)}") from None
    if answer.get(measure.figure, 0) <= 0:
        raise RunFailed(f"its answer lacks {measure.figure}: {answer}")
    return answer, asked


@asynccontextmanager
async def _process(side: Side, argv: Sequence[str], errors: IO[bytes]) -> AsyncIterator[Process]:
    """In a session of its own: whatever a side has started and left behind ends with it."""
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=side.folder, stdout=PIPE, stderr=errors, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _tail(errors: IO[bytes], most: int = 600) -> str:
    errors.seek(0)
    text = errors.read().decode(errors="replace").strip()
    return f": …{text[-most:]}" if text else ""


# --- how many tasks a run has ---


class Plan(msgspec.Struct, frozen=True):
    """How many tasks a side's runs of a measure have, and what one takes in all."""

    count: int
    seconds: float
    asked: Asked | None = None  # of the store, for each task that is processed


async def plan(
    side: Side, measure: Measure, place: Place, *, each: float, tasks: int | None = None
) -> Plan:
    """Try with few tasks, then with more, until it is known how many last about `each` seconds.

    With `tasks` given, runs have as many, idle ones excepted.
    """
    first = FIRST.get(measure, FIRST_TASKS)
    count, asked = first, None
    while True:
        begun = time.monotonic()
        if measure is Measure.PROCESS:
            answer, asked = await run_and_count(side, place, count)
        else:
            answer = await run_once(side, measure, place, count)
        whole = time.monotonic() - begun
        # An idle run's time is in its pauses; starting up takes about a second of it.
        rate = 2 * count / max(whole - 1.0, 0.1) if measure.is_idle else answer[measure.figure]
        wanted = fitting(measure, rate, each, tasks)
        # The rate of a first try is often that of getting going.
        if wanted <= (count if count == first else ENOUGH * count):
            return Plan(wanted, _length(whole, count, wanted), asked)
        count = min(wanted, count * GROWTH)


def fitting(measure: Measure, rate: float, each: float, tasks: int | None = None) -> int:
    """How many tasks a run has at this rate."""
    if tasks is not None and not measure.is_idle:
        return _rounded(measure, min(tasks, rate * LONGEST))
    return _rounded(measure, min(rate * each, MOST.get(measure, MOST_TASKS)))


def _rounded(measure: Measure, count: float) -> int:
    grain = GRAIN.get(measure, 1)
    return max(FIRST.get(measure, 50), round(count / grain) * grain, grain)


def _length(whole: float, count: int, wanted: int) -> float:
    started = min(whole, 1.0)
    return started + (whole - started) * wanted / count


# --- rounds ---


class Course:
    """All runs: which there are, what they said, and what went wrong."""

    def __init__(self, sides: Sequence[Side], place: Place, measures: Sequence[Measure]) -> None:
        self.sides = sides
        self.place = place
        self.measures = measures
        self.rounds = 0
        self.plans: dict[Key, Plan] = {}
        self.answers: dict[Key, list[Answer | None]] = {}
        self.failed: dict[Key, str] = {}  # those that are left out
        self.troubles: list[tuple[Key, str]] = []  # every run that failed

    def pairs(self) -> Iterator[tuple[Side, Measure]]:
        for measure in self.measures:
            for side in self.sides:
                if measure in side.measures:
                    yield side, measure

    async def prepare(
        self, *, each: float, tasks: int | None = None, on_next: Callable[[], object]
    ) -> None:
        """Find out how many tasks fit a run, who cannot run at all, and what the store is asked."""
        for side, measure in self.pairs():
            on_next()
            key = side.name, measure
            try:
                found = await plan(side, measure, self.place, each=each, tasks=tasks)
            except RunFailed as error:
                self._fail(side, measure, error, most=0)
            else:
                self.plans[key] = found
                self.answers[key] = []

    @property
    def round_seconds(self) -> float:
        return sum(plan.seconds for key, plan in self.plans.items() if key not in self.failed)

    async def round(self, number: int, advance: Callable[[float], object]) -> None:
        """Every run once; another side begins each time."""
        self.rounds = number + 1
        for measure in self.measures:
            for side in rotated(self._still(measure), number):
                key = side.name, measure
                answer: Answer | None = None
                try:
                    answer = await run_once(side, measure, self.place, self.plans[key].count)
                except RunFailed as error:
                    self._fail(side, measure, error, most=MOST_FAILURES)
                self.answers[key].append(answer)
                advance(self.plans[key].seconds)

    def _still(self, measure: Measure) -> list[Side]:
        return [
            side
            for side in self.sides
            if (side.name, measure) in self.plans and (side.name, measure) not in self.failed
        ]

    def _fail(self, side: Side, measure: Measure, error: RunFailed, *, most: int) -> None:
        """A peer that fails too often is left out; if we do, it ends here."""
        key = side.name, measure
        self.troubles.append((key, str(error)))
        if sum(one == key for one, _ in self.troubles) <= most:
            return
        if side.role is not Role.PEER:
            raise RunFailed(f"{side.name}, {measure}: {error}") from error
        self.failed[key] = str(error)

    def lengthened(self) -> Mapping[Key, list[Answer | None]]:
        """As many answers for each; None for a round that has none."""
        return {
            key: answers + [None] * (self.rounds - len(answers))
            for key, answers in self.answers.items()
        }


def rotated(sides: Sequence[Side], by: int) -> list[Side]:
    at = by % len(sides) if sides else 0
    return [*sides[at:], *sides[:at]]
