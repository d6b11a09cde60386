"""Where a list goes on: opaque to callers, the place of the last row for us."""

from __future__ import annotations

import base64
import binascii

from taskyard.domain.logs import LogMark
from taskyard.server import limits
from taskyard.server.problems import Refusal

BEGINNING: LogMark = (0, 0)


def written(no: int) -> str:
    return _hidden(f"no:{no}")


def read(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    no = _number(_said(cursor, "no", "cursor"), limits.MAX_NUMBER)
    if no is None:
        raise _no_cursor("cursor")
    return no


# --- lines of logs ---


def written_mark(mark: LogMark) -> str:
    return _hidden(f"line:{event_id(mark)}")


def read_mark(cursor: str | None) -> LogMark:
    return BEGINNING if cursor is None else _mark(_said(cursor, "line", "after"), "after")


def event_id(mark: LogMark) -> str:
    """For those who come back with it as `Last-Event-ID`."""
    return f"{mark[0]}.{mark[1]}"


def read_event_id(said: str | None) -> LogMark:
    return _mark(said, "Last-Event-ID") if said else BEGINNING


def _mark(said: str, path: str) -> LogMark:
    attempt, _, line = said.partition(".")
    marks = _number(attempt, limits.MAX_MARK), _number(line, limits.MAX_MARK)
    if marks[0] is None or marks[1] is None:
        raise _no_cursor(path)
    return marks[0], marks[1]


def _hidden(said: str) -> str:
    return base64.urlsafe_b64encode(said.encode()).decode().rstrip("=")


def _said(cursor: str, wanted: str, path: str) -> str:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (ValueError, binascii.Error):
        raise _no_cursor(path) from None
    what, _, said = text.partition(":")
    if what != wanted:
        raise _no_cursor(path)
    return said


def _number(text: str, most: int) -> int | None:
    """Plain digits, and not so many that reading them takes long."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None


def _no_cursor(path: str) -> Refusal:
    return Refusal(400, "bad_cursor", "this is no cursor of ours; begin without one", path=path)
