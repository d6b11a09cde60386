"""The stages of a run of prune, the same for every store."""

from __future__ import annotations

from taskyard.domain.state import State
from taskyard.store.port import Mark, PruneStep

AUDIT = "audit"
TASKS = (State.COMPLETED, State.FAILED, State.CANCELLED)
STAGES: tuple[str, ...] = (*TASKS, AUDIT)


def begun(after: Mark | None) -> Mark:
    return after or Mark(STAGES[0])


def tasks_step(mark: Mark, tasks: int, place: str, line: int | None, *, dry_run: bool) -> PruneStep:
    """A step that looked for tasks and stopped at this place; empty: it has seen them all."""
    removed = mark.removed + tasks
    if place:
        return PruneStep(tasks, mark=Mark(mark.stage, place, line, removed))
    following = STAGES[STAGES.index(mark.stage) + 1]
    if following == AUDIT and dry_run:
        return PruneStep(tasks)
    return PruneStep(tasks, mark=Mark(following, line=line, removed=removed))


def audit_step(mark: Mark, lines: int, limit: int) -> PruneStep:
    return PruneStep(0, lines, mark if lines >= limit else None)
