"""What bodies say with `ctx.log`, as it is kept with the attempt: lines, and how many of them.

An attempt keeps its last lines, a task those of its last attempts: what fails says why at its end.
Lines are counted where they are said, so that a number that is missing is a line that was dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from taskyard.domain.clock import Instant, micros
from taskyard.domain.node import Hold

MAX_LINE_BYTES = 8_000
MAX_LINES = 1_000  # of an attempt
MAX_LOG_BYTES = 250_000  # of an attempt, all its lines together
KEPT_ATTEMPTS = 10  # of a task: ten times 250 kB at most
PAGE_LINES = 1_000  # that are read at once

LogMark = tuple[int, int]
"""Attempt and number of a line: the place of it among all lines of its task."""


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class KeepLogs(StrEnum):
    """The least level that is kept, or none at all."""

    OFF = "off"
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLine(msgspec.Struct, frozen=True):
    attempt: int
    number: int  # among the lines of its attempt, from 1; dropped ones are counted too
    at: Instant
    level: Level
    text: str

    @property
    def mark(self) -> LogMark:
        return self.attempt, self.number


class NewLine(msgspec.Struct, frozen=True):
    """A line that is not stored yet."""

    number: int
    age: Instant  # how long ago it was said: times are the store's own
    level: Level
    text: str


class LogPage(msgspec.Struct, frozen=True):
    """What an attempt has said since its last page; said again, it is kept once."""

    hold: Hold
    lines: tuple[NewLine, ...]
    first: int = 1  # number of the first line of this attempt that is still kept

    @property
    def first_attempt(self) -> int:
        """The first one of this task whose lines are still kept."""
        return max(0, self.hold.attempt - KEPT_ATTEMPTS + 1)


class MovedLine(msgspec.Struct, frozen=True):
    """A line on its way from one store to another."""

    no: int  # of its task
    line: LogLine


class AttemptLog:
    """The lines of one attempt that are not stored yet, and which of its lines are to be kept."""

    __slots__ = ("_bytes", "_first", "_lines", "_number", "_sizes")

    def __init__(self) -> None:
        self._lines: deque[tuple[int, float, Level, str]] = deque()
        self._sizes: deque[int] = deque()  # of all lines that are kept, stored ones too
        self._bytes = 0  # their sum
        self._number = 0
        self._first = 1

    @property
    def is_stored(self) -> bool:
        return not self._lines

    def add(self, level: Level, text: str, said: float) -> None:
        """`text` fits already; `said` is when, in seconds of a clock that `page` is given too."""
        self._number += 1
        self._lines.append((self._number, said, level, text))
        self._sizes.append(len(text.encode()))
        self._bytes += self._sizes[-1]
        while len(self._sizes) > MAX_LINES or self._bytes > MAX_LOG_BYTES:
            self._bytes -= self._sizes.popleft()
            self._first += 1
        while self._lines[0][0] < self._first:
            self._lines.popleft()

    def page(self, hold: Hold, now: float) -> LogPage:
        lines = tuple(
            NewLine(number, max(0, micros(now - said)), level, text)
            for number, said, level, text in self._lines
        )
        return LogPage(hold, lines, self._first)

    def stored(self, page: LogPage) -> None:
        """This page need not be written again."""
        last = page.lines[-1].number if page.lines else 0
        while self._lines and self._lines[0][0] <= last:
            self._lines.popleft()


def fitting(text: str) -> str:
    """What every store takes: no NUL, no half of a surrogate pair; of a long text the beginning
    and, as that of a stack tells most, the end.
    """
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= MAX_LINE_BYTES:
        return text if text.isascii() else encoded.decode()
    note = f" … {len(encoded) - MAX_LINE_BYTES:,} bytes and more are left out … "
    half = (MAX_LINE_BYTES - len(note.encode())) // 2
    return encoded[:half].decode(errors="ignore") + note + encoded[-half:].decode(errors="ignore")


def with_gaps(lines: Sequence[LogLine], after: LogMark | None = None) -> list[LogLine]:
    """These lines, which follow `after`, and in the place of those that were dropped one that says
    how many they were.
    """
    told: list[LogLine] = []
    attempt, number = after or (0, 0)
    for line in lines:
        if line.attempt != attempt:
            attempt, number = line.attempt, 0
        if line.number > number + 1:
            told.append(_gap(line, line.number - number - 1))
        told.append(line)
        number = line.number
    return told


def _gap(line: LogLine, count: int) -> LogLine:
    what = "1 line was" if count == 1 else f"{count:,} lines were"
    most = f"{MAX_LINES:,} lines and {MAX_LOG_BYTES // 1000} kB"
    text = f"({what} dropped here: of an attempt the last are kept, up to {most})"
    return LogLine(line.attempt, line.number - 1, line.at, Level.WARNING, text)
