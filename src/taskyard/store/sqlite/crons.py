"""Periodic tasks: the entries, and each tick started once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.cron import Cron, CronEntry, Ticks
from taskyard.domain.task import Enqueue, NewTask
from taskyard.store.sqlite.enqueue import enqueue
from taskyard.store.sqlite.tx import Tx, to_json


def crons(tx: Tx) -> list[CronEntry]:
    rows = tx.rows(list[tuple[Cron, Instant | None, Instant | None]], tx.sql("crons")["list"], None)
    return [CronEntry(*row) for row in rows]


def set_cron(tx: Tx, cron: Cron, next_at: Instant | None, actor: str) -> bool:
    before = _entry(tx, cron.name)
    if before is not None and _stays(before.cron, cron):
        return False
    tx.run(tx.sql("crons")["set"], cron.name, to_json(cron), next_at)
    tx.audit(actor, [("set_cron", f"cron:{cron.name}", cron.schedule)])
    return True


def _stays(before: Cron, after: Cron) -> bool:
    """Whether an entry is kept as it is: an operator's, or one that would not change."""
    if after.declared and not before.declared:
        return True
    task = msgspec.structs.replace(after.task, id=before.task.id)
    return msgspec.structs.replace(after, task=task) == before


def drop_cron(tx: Tx, name: str, actor: str) -> bool:
    if tx.run(tx.sql("crons")["drop"], name) == 0:
        return False
    tx.audit(actor, [("drop_cron", f"cron:{name}", "")])
    return True


def fire_cron(
    tx: Tx, name: str, due: Instant, tasks: Sequence[NewTask], found: Ticks
) -> list[Enqueue] | None:
    entry = _entry(tx, name)
    if entry is None or entry.cron.paused or entry.next_at != due:
        return None
    answers = enqueue(tx, tasks)
    last_at = found.start[-1] if found.start else entry.last_at
    tx.run(tx.sql("crons")["fire"], name, found.next_at, last_at)
    return answers


def _entry(tx: Tx, name: str) -> CronEntry | None:
    rows = tx.rows(list[tuple[Cron, Instant | None, Instant | None]], tx.sql("crons")["list"], name)
    return CronEntry(*rows[0]) if rows else None
