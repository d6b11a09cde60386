"""What attempts have said, as lua/parts/logs.lua keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.errors import NotFound
from taskyard.domain.logs import Level, LogLine, LogPage, MovedLine
from taskyard.store.redis.rows import reading

_rest = msgspec.msgpack.Decoder(tuple[Instant, Level, str]).decode


def pages(given: Sequence[LogPage]) -> list[tuple[object, ...]]:
    """As lua/append_logs.lua takes them."""
    return [
        (
            page.hold,
            page.first_attempt,
            page.first,
            [(line.number, line.age, line.level, line.text) for line in page.lines],
        )
        for page in given
    ]


def rows(lines: Sequence[MovedLine]) -> list[tuple[object, ...]]:
    """As lua/import_logs.lua takes them."""
    return [(one.no, *msgspec.structs.astuple(one.line)) for one in lines]


def of_task(task_id: str, members: Sequence[bytes] | None) -> list[LogLine]:
    if members is None:
        raise NotFound(f"there is no task {task_id}")
    return [one.line for one in moved(members)]


def moved(members: Sequence[Any]) -> list[MovedLine]:
    with reading():
        return [
            MovedLine(
                int(member[:14], 16),
                LogLine(int(member[14:22], 16), int(member[22:30], 16), *_rest(member[30:])),
            )
            for member in members
        ]
