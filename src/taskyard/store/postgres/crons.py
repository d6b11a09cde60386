"""Periodic tasks: the entries, and each tick started once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.cron import Cron, CronEntry, Ticks
from taskyard.domain.task import Enqueue, NewTask
from taskyard.store.postgres.connection import Database
from taskyard.store.postgres.enqueue import TYPES, enqueue_answers, enqueue_args
from taskyard.store.postgres.turn import to_json

_SET = "SELECT taskyard.set_cron($1, $2, $3, $4, $5, $6, $7)"
_DROP = "SELECT taskyard.drop_cron($1, $2, $3)"
_ARGS = ", ".join(f"${at}" for at in range(1, len(TYPES) + 5))
_FIRE = f"SELECT * FROM taskyard.fire_cron({_ARGS})"  # noqa: S608

_cron = msgspec.json.Decoder(Cron).decode


async def crons(database: Database) -> list[CronEntry]:
    rows = await database.read(list[tuple[str, Instant | None, Instant | None]], "crons")
    return [CronEntry(_cron(cron), next_at, last_at) for cron, next_at, last_at in rows]


async def set_cron(
    database: Database, clock: int, cron: Cron, next_at: Instant | None, actor: str
) -> bool:
    cron.check()
    while True:
        kept = await database.read(list[str], "cron", cron.name)
        if kept and _stays(_cron(kept[0]), cron):
            return False
        old = kept[0] if kept else None
        args = (clock, cron.name, old, to_json(cron), next_at, cron.schedule, actor)
        if await database.value(_SET, *args):
            return True


def _stays(before: Cron, after: Cron) -> bool:
    """Whether an entry is kept as it is: an operator's, or one that would not change."""
    if after.declared and not before.declared:
        return True
    task = msgspec.structs.replace(after.task, id=before.task.id)
    return msgspec.structs.replace(after, task=task) == before


async def drop_cron(database: Database, clock: int, name: str, actor: str) -> bool:
    return bool(await database.value(_DROP, clock, name, actor))


async def fire_cron(
    database: Database,
    clock: int,
    name: str,
    tasks: Sequence[NewTask],
    *,
    due: Instant,
    found: Ticks,
) -> list[Enqueue] | None:
    for task in tasks:
        task.check()
    last_at = found.start[-1] if found.start else None
    args = (name, due, found.next_at, last_at, *enqueue_args(clock, tasks))
    row = await database.row(_FIRE, *args)
    return enqueue_answers(tasks, row) if row["o_fired"] else None


def cron_rows(entries: Sequence[CronEntry]) -> list[dict[str, object]]:
    """As functions/130_copy.sql takes them."""
    return [
        {
            "name": entry.cron.name,
            "cron": to_json(entry.cron),
            "next_at": entry.next_at,
            "last_at": entry.last_at,
        }
        for entry in entries
    ]
