"""Gives all tasks away, or takes them over, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import micros
from taskyard.domain.cron import CronEntry
from taskyard.domain.lane import Audited, KeyRule, Lane
from taskyard.domain.moved import Bucket, Moved
from taskyard.domain.task import Task, Until
from taskyard.store.postgres.connection import Database
from taskyard.store.postgres.crons import cron_rows
from taskyard.store.postgres.enqueue import SEPARATOR
from taskyard.store.postgres.settings import rate_columns
from taskyard.store.postgres.turn import to_json

TASKS = "SELECT taskyard.import_tasks($1, $2, $3, $4)"
_SETTINGS = "SELECT taskyard.import_settings($1, $2, $3, $4), taskyard.import_buckets($5, $6)"


class _Page(msgspec.Struct):
    tasks: list[Task]
    beside: list[tuple[Until | None, bool, int, tuple[str, ...]]]


async def export(database: Database, after: int | None, limit: int) -> list[Moved]:
    page = await database.read(_Page, "export", after, limit)
    return [Moved(task, *beside) for task, beside in zip(page.tasks, page.beside, strict=True)]


async def import_tasks(database: Database, moved: Sequence[Moved]) -> None:
    if moved:
        await database.value(TASKS, *task_args(moved))


def task_args(moved: Sequence[Moved]) -> tuple[object, ...]:
    """In the order of import_tasks in functions/130_copy.sql."""
    lanes = sorted({one.task.lane for one in moved})
    routes = sorted({(one.task.kind, _joined(one.task.requires)) for one in moved})
    kinds, requires = [kind for kind, _ in routes], [needs for _, needs in routes]
    return lanes, kinds, requires, to_json([_row(one) for one in moved])


async def import_settings(
    database: Database,
    lanes: Sequence[Lane],
    rules: Sequence[KeyRule],
    audit: Sequence[Audited],
    crons: Sequence[CronEntry],
    *,
    clock: int,
    buckets: Sequence[Bucket],
) -> None:
    given = (
        [msgspec.structs.asdict(lane) | _lane_columns(lane) for lane in lanes],
        [msgspec.structs.asdict(rule) | rate_columns(rule.rate) for rule in rules],
        audit,
        cron_rows(crons),
    )
    await database.value(_SETTINGS, *map(to_json, given), clock, to_json(buckets))


def _lane_columns(lane: Lane) -> dict[str, Any]:
    ageing = None if lane.ageing is None else micros(lane.ageing)
    return rate_columns(lane.rate) | {"ageing": ageing}


def _row(moved: Moved) -> dict[str, Any]:
    """The columns of import_tasks in functions/130_copy.sql."""
    task = moved.task
    return {
        **{name: getattr(task, name) for name in Task.__struct_fields__},
        "requires": _joined(task.requires),
        "keys": task.keys or None,
        "grp": task.group or None,
        "dedup_until": moved.dedup_until,
        "dedup_kept": moved.dedup_kept,
        "rank": moved.rank,
        "unmet": moved.unmet,
        "timeout": micros(task.timeout),
    }


def _joined(requires: Sequence[str]) -> str:
    return SEPARATOR.join(sorted(requires))
