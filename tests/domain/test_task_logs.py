"""How many lines are kept of an attempt, and what says that there were more."""

from __future__ import annotations

import pytest

from taskyard.domain.logs import (
    KEPT_ATTEMPTS,
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_LOG_BYTES,
    AttemptLog,
    Level,
    LogLine,
    LogPage,
    fitting,
    with_gaps,
)
from taskyard.domain.node import Hold

HOLD = Hold(7, 3, 1)


def numbers(page: LogPage) -> list[int]:
    return [line.number for line in page.lines]


def test_lines_are_numbered_and_given_once() -> None:
    said = AttemptLog()
    assert said.is_stored
    said.add(Level.INFO, "a", 1.0)
    said.add(Level.ERROR, "b", 2.5)
    page = said.page(HOLD, 3.0)
    assert [(line.number, line.age, line.level, line.text) for line in page.lines] == [
        (1, 2_000_000, Level.INFO, "a"),
        (2, 500_000, Level.ERROR, "b"),
    ]
    said.add(Level.INFO, "c", 3.0)
    said.stored(page)
    assert numbers(said.page(HOLD, 3.0)) == [3]
    said.stored(said.page(HOLD, 3.0))
    assert said.is_stored


def test_a_page_that_was_not_stored_is_given_again() -> None:
    said = AttemptLog()
    said.add(Level.INFO, "a", 0.0)
    assert numbers(said.page(HOLD, 0.0)) == [1]
    said.add(Level.INFO, "b", 0.0)
    assert numbers(said.page(HOLD, 0.0)) == [1, 2]


@pytest.mark.parametrize("stored_every", [1, 7, 10 * MAX_LINES])
def test_the_last_lines_are_kept(stored_every: int) -> None:
    said, kept = AttemptLog(), set[int]()
    for number in range(1, 3 * MAX_LINES):
        said.add(Level.INFO, "x", 0.0)
        if number % stored_every == 0:
            page = said.page(HOLD, 0.0)
            said.stored(page)
            kept = {n for n in kept.union(numbers(page)) if n >= page.first}
    page = said.page(HOLD, 0.0)
    kept = {n for n in kept.union(numbers(page)) if n >= page.first}
    last = 3 * MAX_LINES - 1
    if page.lines:
        assert kept == set(range(last - MAX_LINES + 1, last + 1))
    assert len(kept) <= MAX_LINES
    assert max(kept) == last


def test_long_lines_leave_room_for_fewer() -> None:
    said = AttemptLog()
    for _ in range(MAX_LINES):
        said.add(Level.INFO, "☃" * (MAX_LINE_BYTES // 3), 0.0)
    page = said.page(HOLD, 0.0)
    size = sum(len(line.text.encode()) for line in page.lines)
    assert MAX_LOG_BYTES - MAX_LINE_BYTES < size <= MAX_LOG_BYTES
    assert (page.lines[0].number, page.lines[-1].number) == (page.first, MAX_LINES)


def test_a_task_keeps_its_last_attempts() -> None:
    assert LogPage(HOLD, ()).first_attempt == 0
    later = LogPage(Hold(7, KEPT_ATTEMPTS + 5, 1), ())
    assert later.first_attempt == 6  # and nine more


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("☃ is fine", "☃ is fine"),
        ("a\0b", "a\\x00b"),
        ("file \udcff", "file \\udcff"),
    ],
)
def test_what_no_store_takes_is_written_out(text: str, shown: str) -> None:
    assert fitting(text) == shown


@pytest.mark.parametrize("letter", ["x", "☃", "😀"])
def test_of_a_long_line_both_ends_are_kept(letter: str) -> None:
    cut = fitting(f"begins {letter * 20_000} ends")
    assert len(cut.encode()) <= MAX_LINE_BYTES
    assert cut.startswith("begins ")
    assert cut.endswith(" ends")
    assert "bytes and more are left out" in cut


def line(attempt: int, number: int) -> LogLine:
    return LogLine(attempt, number, 0, Level.INFO, f"{attempt}.{number}")


def test_a_line_says_how_many_were_dropped() -> None:
    told = with_gaps([line(1, 4), line(1, 5), line(1, 7), line(2, 1), line(3, 2)])
    assert [each.mark for each in told] == [
        *((1, 3), (1, 4), (1, 5), (1, 6), (1, 7)),
        *((2, 1), (3, 1), (3, 2)),
    ]
    assert told[0].text.startswith("(3 lines were dropped here")
    assert told[3].text.startswith("(1 line was dropped here")
    assert told[0].level is Level.WARNING


def test_nothing_is_dropped_between_two_pages() -> None:
    assert with_gaps([line(1, 5)], after=(1, 4)) == [line(1, 5)]
    assert with_gaps([line(2, 1)], after=(1, 4)) == [line(2, 1)]
    assert [each.mark for each in with_gaps([line(1, 9)], after=(1, 4))] == [(1, 8), (1, 9)]
