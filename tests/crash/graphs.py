"""Invariants of tasks that depend on others: D each starts after them, and only if it may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import OnFailure, Task
from tests.crash.evidence import Evidence
from tests.crash.finding import Finding


def after_those_it_depends_on(evidence: Evidence) -> Finding:
    """D: no body starts before all that its task depends on has ended, and none that may not."""
    found = Finding("D", "after those it depends on")
    for task in evidence.tasks:
        needed = [evidence.by_id.get(other) for other in task.depends_on]
        if not needed:
            continue
        found.checked += 1
        known = [other for other in needed if other is not None]
        if len(known) < len(needed):
            found.violations.append(f"{task.id} depends on a task that is gone")
        found.violations += _too_early(task, known, evidence)
        found.violations += _wrongly_ended(task, known, evidence)
    return found


def _too_early(task: Task, needed: Sequence[Task], evidence: Evidence) -> Iterator[str]:
    for body in evidence.bodies_of.get(task.id, ()):
        for other in needed:
            if other.ended_at is None or body.wall < other.ended_at:
                yield f"{task.id} attempt {body.attempt} started before {other.id} had ended"


def _wrongly_ended(task: Task, needed: Sequence[Task], evidence: Evidence) -> Iterator[str]:
    """One whose dependencies have all ended is let go once: nothing is left to wait for."""
    if task.state not in TERMINAL:
        return  # that is L's
    failed = [other for other in needed if other.state is not State.COMPLETED]
    given_up = (task.state, task.reason) == (State.CANCELLED, Reason.DEPENDENCY)
    may_run = task.on_failure is OnFailure.RUN or not failed
    if given_up and may_run:
        yield f"{task.id} was given up, and what it depends on ended well enough"
    if not may_run and task.id in evidence.bodies_of:
        yield f"{task.id} has run, and {failed[0].id} is {failed[0].state}"
    if task.id in evidence.bodies_of and task.waits_for:
        yield f"{task.id} has run, and still waits for {task.waits_for}"
