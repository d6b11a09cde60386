"""Removes what has been kept long enough, a step at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from taskyard.domain.retention import Retention
from taskyard.domain.state import State
from taskyard.store.port import PRUNE_LINES, Mark, PruneStep
from taskyard.store.prune import AUDIT, audit_step, tasks_step

Ask = Callable[..., Awaitable[Any]]


async def prune(
    ask: Ask, retention: Retention, mark: Mark, limit: int, *, actor: str, dry_run: bool
) -> PruneStep:
    if mark.stage == AUDIT:
        figures = await ask("prune_tallies", retention.statistics_age, limit)
        lines = await ask("prune_audit", retention.audit_age, limit)
        step = audit_step(mark, lines, limit)
        return step if figures < limit else PruneStep(0, lines, mark)
    ages = retention.ages(State(mark.stage))
    count, place, line = await ask(
        "prune",
        mark.stage,
        ages,
        limit,
        mark.place,
        dry_run,
        actor,
        mark.line,
        mark.removed,
        PRUNE_LINES,
    )
    return tasks_step(mark, count, place.decode(), line or None, dry_run=dry_run)
