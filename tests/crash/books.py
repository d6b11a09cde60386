"""Invariants of the store's books: L nothing lost, A audit equals state, P recovery in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from taskyard.domain.clock import micros
from taskyard.domain.lane import Audited
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import Task
from tests.crash.evidence import NANOS, Body, Death, Evidence
from tests.crash.finding import Finding
from tests.crash.record import What

IN_TIME = 10.0  # seconds beyond the lease

_BY_THE_SYSTEM = frozenset({Reason.TIMEOUT, Reason.LOST, Reason.POISON, Reason.RESCUED})
_TAKEN_BACK = frozenset({Reason.LOST, Reason.POISON, Reason.RESCUED})
_CANCELS = frozenset({"cancel"})


def nothing_lost(evidence: Evidence) -> Finding:
    """L: everything that was acknowledged exists and has ended."""
    found = Finding("L", "nothing lost", len(evidence.saved))
    for task_id in sorted(evidence.saved):
        task = evidence.by_id.get(task_id)
        if task is None:
            found.violations.append(f"{task_id} was acknowledged and is gone")
        elif task.state not in TERMINAL:
            found.violations.append(f"{task_id} is still {task.state} ({task.reason})")
    return found


def within_budget(evidence: Evidence) -> Finding:
    """Charged runs never exceed what the task allows."""
    found = Finding("2", "charged within the budget", len(evidence.tasks))
    found.violations += [
        f"{task.id} was charged {task.charged} times, allowed are {task.max_charged}"
        for task in evidence.tasks
        if task.charged > task.max_charged
    ]
    return found


def audit_equals_state(evidence: Evidence) -> Finding:
    """A: what the system or an operator did to a task is written down, as often as it was done."""
    found = Finding("A", "audit equals state")
    written: Counter[tuple[str, str]] = Counter(
        (entry.subject, entry.action) for entry in evidence.audit
    )
    for task in evidence.tasks:
        subject = f"task:{task.id}"
        done = Counter(failure.reason for failure in task.failures)
        for reason in _BY_THE_SYSTEM:
            found.checked += done[reason]
            found.violations += _uneven(subject, reason, done[reason], written[subject, reason])
        if task.state is State.CANCELLED and task.reason is Reason.OPERATOR:
            found.checked += 1
            if not any(written[subject, action] for action in _CANCELS):
                found.violations.append(f"{task.id} is cancelled and no line says by whom")
    return found


def _uneven(subject: str, reason: Reason, done: int, written: int) -> Iterator[str]:
    # What was claimed ahead and never started is rescued too, and is no failed attempt.
    fine = written >= done if reason is Reason.RESCUED else written == done
    if not fine:
        yield f"{subject}: {reason} happened {done} times and is written down {written} times"


def recovers_in_time(evidence: Evidence) -> Finding:
    """P: whatever ran in a process that died is taken back within its lease and ten seconds."""
    found = Finding("P", "recovers by itself in time")
    lines: dict[str, list[Audited]] = {}
    for entry in evidence.audit:
        lines.setdefault(entry.subject, []).append(entry)
    for body in evidence.bodies:
        death = evidence.deaths.get(body.pid)
        task = evidence.by_id.get(body.task)
        if body.how or death is None or task is None:
            continue
        found.checked += 1
        found.violations += _too_late(
            body, death, task, lines.get(f"task:{task.id}", []), evidence.lease
        )
    found.checked += len(evidence.nodes)
    found.violations += _haunted(evidence)
    return found


def _too_late(
    body: Body, death: Death, task: Task, entries: list[Audited], lease: float
) -> Iterator[str]:
    latest = death.wall + micros(lease + IN_TIME)
    taken_back = [
        entry.at
        for entry in entries
        if entry.action in _TAKEN_BACK and death.wall - micros(1) <= entry.at
    ]
    if task.ended_at is not None and task.ended_at >= body.wall:
        taken_back.append(task.ended_at)
    if not taken_back:
        yield f"{body.task} died with {body.pid} and was never taken back"
    elif min(taken_back) > latest:
        late = (min(taken_back) - death.wall) / 1e6
        yield f"{body.task} died with {body.pid} and was taken back after {late:.1f} s"


def _haunted(evidence: Evidence) -> Iterator[str]:
    patience = int((evidence.lease + IN_TIME) * NANOS)
    for look in evidence.nodes:
        death = evidence.deaths.get(look.pid)
        if (
            death is not None
            and death.how is not What.DOWN
            and look.running
            and look.at > death.at + patience
        ):
            seconds = (look.at - death.at) / NANOS
            yield f"{look.running} tasks still run under {look.pid}, dead for {seconds:.1f} s"
