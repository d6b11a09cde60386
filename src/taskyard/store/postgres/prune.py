"""Removes what has been kept long enough, a step at a time."""

from __future__ import annotations

from taskyard.domain.retention import Retention
from taskyard.domain.state import State
from taskyard.store.port import Mark, PruneStep
from taskyard.store.postgres.connection import Database
from taskyard.store.prune import AUDIT, audit_step, tasks_step

PRUNE = (
    "SELECT * FROM taskyard.prune($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
)
PRUNE_AUDIT = "SELECT taskyard.prune_audit($1, $2, $3)"
PRUNE_FIGURES = "SELECT taskyard.prune_figures($1, $2)"
CORRECT = "SELECT taskyard.correct_completed()"


async def prune(
    database: Database,
    clock: int,
    retention: Retention,
    mark: Mark,
    limit: int,
    *,
    actor: str,
    dry_run: bool,
) -> PruneStep:
    if mark.stage == AUDIT:
        lines = await database.value(PRUNE_AUDIT, clock, retention.audit_age, limit)
        await database.value(PRUNE_FIGURES, clock, retention.statistics_age)
        step = audit_step(mark, int(lines), limit)
        if step.mark is None:
            await database.value(CORRECT)
        return step
    ages = retention.ages(State(mark.stage))
    at, _, no = mark.place.partition(":")
    row = await database.row(
        PRUNE,
        clock,
        mark.stage,
        ages.youngest,
        ages.common,
        list(ages.lanes),
        list(ages.lanes.values()),
        list(ages.kinds),
        list(ages.kinds.values()),
        *((int(at), int(no)) if no else (-(2**63), 0)),
        limit,
        dry_run,
        actor,
        mark.line,
        mark.removed,
    )
    place = "" if row["o_no"] is None else f"{row['o_at']}:{row['o_no']}"
    return tasks_step(mark, row["o_count"], place, row["o_line"], dry_run=dry_run)
