"""What attempts have said: a table of its own, so that who says nothing costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.errors import NotFound
from taskyard.domain.logs import LogLine, LogMark, LogPage, MovedLine
from taskyard.store.postgres.connection import Database

APPEND = "SELECT taskyard.append_logs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
IMPORT = "SELECT taskyard.import_logs($1, $2, $3, $4, $5, $6)"


class _Line(LogLine, array_like=True, frozen=True):
    pass


class _Moved(MovedLine, array_like=True, frozen=True):
    line: _Line


async def append(database: Database, clock: int, pages: Sequence[LogPage]) -> list[bool]:
    if not pages:
        return []
    holds = [page.hold for page in pages]
    lines = [(at, line) for at, page in enumerate(pages, 1) for line in page.lines]
    accepted = await database.value(
        APPEND,
        clock,
        [hold.no for hold in holds],
        [hold.attempt for hold in holds],
        [hold.lease for hold in holds],
        [page.first for page in pages],
        [page.first_attempt for page in pages],
        [at for at, _ in lines],
        [line.number for _, line in lines],
        [line.age for _, line in lines],
        [line.level for _, line in lines],
        [line.text for _, line in lines],
    )
    return [at in accepted for at in range(1, len(pages) + 1)]


async def of_task(
    database: Database, task_id: str, after: LogMark | None, limit: int
) -> list[LogLine]:
    # The kind of the answer is a union, which mypy does not take for a type.
    kind: type[list[_Line] | None] = list[_Line] | None  # type: ignore[assignment]
    rows = await database.read(kind, "task_logs", task_id, *(after or (0, 0)), limit)
    if rows is None:
        raise NotFound(f"there is no task {task_id}")
    return [_plain(row) for row in rows]


async def export(
    database: Database, after: tuple[int, int, int] | None, limit: int
) -> list[MovedLine]:
    rows = await database.read(list[_Moved], "export_logs", *(after or (0, 0, 0)), limit)
    return [MovedLine(row.no, _plain(row.line)) for row in rows]


async def import_lines(database: Database, moved: Sequence[MovedLine]) -> None:
    if moved:
        lines = [one.line for one in moved]
        await database.value(
            IMPORT,
            [one.no for one in moved],
            [line.at for line in lines],
            [line.attempt for line in lines],
            [line.number for line in lines],
            [line.level for line in lines],
            [line.text for line in lines],
        )


def _plain(row: _Line) -> LogLine:
    return LogLine(row.attempt, row.number, row.at, row.level, row.text)
