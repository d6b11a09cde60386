"""What attempts have said: a table of its own, so that who says nothing costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.errors import NotFound
from taskyard.domain.logs import LogLine, LogMark, LogPage, MovedLine
from taskyard.store.sqlite.tx import Tx, to_json


class _Line(LogLine, array_like=True, frozen=True):
    pass


class _Moved(MovedLine, array_like=True, frozen=True):
    line: _Line


def append(tx: Tx, pages: Sequence[LogPage]) -> list[bool]:
    sql = tx.sql("logs")
    fences = [(page.hold.no, page.hold.attempt, page.hold.lease) for page in pages]
    accepted = set(tx.rows(list[int], sql["accepted"], to_json(fences)))
    kept = [page for at, page in enumerate(pages) if at in accepted]
    if kept:
        tx.run(sql["insert"], to_json([row for page in kept for row in _rows(page, tx)]))
    lines = [(*_fence(page), page.first) for page in kept if page.first > 1]
    if lines:
        tx.run(sql["drop_lines"], to_json(lines))
    attempts = [(page.hold.no, page.first_attempt) for page in kept if page.first_attempt > 1]
    if attempts:
        tx.run(sql["drop_attempts"], to_json(attempts))
    return [at in accepted for at in range(len(pages))]


def _rows(page: LogPage, tx: Tx) -> list[tuple[object, ...]]:
    """In the order of insert in sql/logs.sql."""
    return [
        (*_fence(page), line.number, tx.now - line.age, line.level, line.text)
        for line in page.lines
    ]


def _fence(page: LogPage) -> tuple[int, int]:
    return page.hold.no, page.hold.attempt


def of_task(tx: Tx, task_id: str, after: LogMark | None, limit: int) -> list[LogLine]:
    sql = tx.sql("logs")
    no = tx.value(sql["number"], task_id)
    if no is None:
        raise NotFound(f"there is no task {task_id}")
    rows = tx.rows(list[_Line], sql["of_task"], no, *(after or (0, 0)), limit)
    return [_plain(row) for row in rows]


def export(tx: Tx, after: tuple[int, int, int] | None, limit: int) -> list[MovedLine]:
    rows = tx.rows(list[_Moved], tx.sql("logs")["export"], *(after or (0, 0, 0)), limit)
    return [MovedLine(row.no, _plain(row.line)) for row in rows]


def import_lines(tx: Tx, lines: Sequence[MovedLine]) -> None:
    if lines:
        rows = [
            (one.no, line.attempt, line.number, line.at, line.level, line.text)
            for one in lines
            for line in (one.line,)
        ]
        tx.run(tx.sql("logs")["insert"], to_json(rows))


def _plain(row: _Line) -> LogLine:
    return LogLine(row.attempt, row.number, row.at, row.level, row.text)
