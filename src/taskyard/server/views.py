"""Tasks as the API shows them."""

from __future__ import annotations

from typing import Any

import msgspec

from taskyard.domain.explain import Explanation, Wait
from taskyard.domain.state import REVIVABLE, WAITING, State
from taskyard.domain.task import FailedAttempt, Progress, Task, TaskError, TaskLine
from taskyard.engine.job import MAX_MESSAGE, MAX_STACK
from taskyard.engine.veil import Veil
from taskyard.server.words import Moment, iso, iso_or_none, json_of


class ErrorView(msgspec.Struct, frozen=True):
    type: str
    message: str
    stack: str = ""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the timeline; the last one may still be running."""

    attempt: int
    outcome: str  # running, completed, cancelled, or why it did not end well
    started_at: Moment | None = None
    ended_at: Moment | None = None
    node: str | None = None
    error: ErrorView | None = None


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    lane: str
    priority: int
    state: State
    reason: str
    keys: tuple[str, ...]
    group: str
    attempt: int
    created_at: Moment
    run_at: Moment
    deadline: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    node: str | None
    asked: str | None
    progress: Progress | None
    error: ErrorView | None


class TaskView(TaskSummary, frozen=True, kw_only=True):
    no: int  # the store's own number of it, which grows
    seq: int  # its place among tasks of equal priority
    payload: Any
    result: Any
    checkpoint: Any
    dedup: str | None
    requires: tuple[str, ...]
    depends_on: tuple[str, ...]
    on_failure: str
    waits_for: int
    charged: int
    max_charged: int
    losses: int
    timeout: float
    parked_on: str | None
    trace: str | None  # the span it was enqueued in, as a W3C traceparent
    attempts: list[AttemptView]
    waits: list[Wait]
    why: str  # it waits, in one sentence
    actions: list[str]  # what can be done with it now


class TaskPage(msgspec.Struct, frozen=True):
    items: list[TaskSummary]
    next: str | None  # the cursor of the next page; this one may be short nevertheless


class ExplanationView(msgspec.Struct, frozen=True):
    id: str
    state: State
    text: str
    waits: tuple[Wait, ...]


def speaks(task: TaskLine) -> bool:
    """Whether a list shows words of its body, who knows all that is secret in the payload."""
    return task.error is not None or (task.progress is not None and bool(task.progress.note))


def summary(task: TaskLine) -> TaskSummary:
    veil = Veil(json_of(task.payload) if speaks(task) else None)
    return TaskSummary(**_common(task, veil, stack=False))


def whole(task: Task, why: Explanation) -> TaskView:
    payload = json_of(task.payload)
    veil = Veil(payload)
    return TaskView(
        **_common(task, veil, stack=True),
        no=task.no,
        seq=task.seq,
        payload=veil.value(payload),
        result=veil.value(json_of(task.result)),
        checkpoint=veil.value(json_of(task.checkpoint)),
        dedup=task.dedup,
        requires=task.requires,
        depends_on=task.depends_on,
        on_failure=task.on_failure,
        waits_for=task.waits_for,
        charged=task.charged,
        max_charged=task.max_charged,
        losses=task.losses,
        timeout=task.timeout,
        parked_on=task.parked_on,
        trace=task.trace,
        attempts=_timeline(task, veil),
        waits=list(why.waits),
        why=why.text,
        actions=actions(task),
    )


def explanation(why: Explanation) -> ExplanationView:
    return ExplanationView(why.id, why.state, why.text, why.waits)


def actions(task: Task) -> list[str]:
    found = []
    if task.state in WAITING or task.state is State.RUNNING:
        found.append("cancel")
    if task.state in (State.PENDING, State.QUEUED, State.RUNNING):
        found.append("pause")
    if task.state is State.PAUSED or task.asked == "pause":
        found.append("resume")
    if task.state in REVIVABLE:
        found.append("retry")
    if task.state in WAITING:
        found.append("prioritize")
    return found


def _common(task: Task | TaskLine, veil: Veil, *, stack: bool) -> dict[str, Any]:
    return {
        "id": task.id,
        "kind": task.kind,
        "lane": task.lane,
        "priority": task.priority,
        "state": task.state,
        "reason": task.reason,
        "keys": task.keys,
        "group": task.group,
        "attempt": task.attempt,
        "created_at": iso(task.created_at),
        "run_at": iso(task.run_at),
        "deadline": iso_or_none(task.deadline),
        "started_at": iso_or_none(task.started_at),
        "ended_at": iso_or_none(task.ended_at),
        "node": task.node,
        "asked": task.asked,
        "progress": _progress(task.progress, veil),
        "error": _error(task.error, veil, stack=stack),
    }


def _progress(progress: Progress | None, veil: Veil) -> Progress | None:
    if progress is None or not progress.note:
        return progress
    return msgspec.structs.replace(progress, note=veil.text(progress.note))


def _error(error: TaskError | None, veil: Veil, *, stack: bool) -> ErrorView | None:
    if error is None:
        return None
    kept = veil.text(error.stack, cut=len(error.stack) >= MAX_STACK) if stack else ""
    message = veil.text(error.message, cut=len(error.message) >= MAX_MESSAGE)
    return ErrorView(error.type, message, kept)


def _timeline(task: Task, veil: Veil) -> list[AttemptView]:
    """Every attempt that left a trace, and the one that runs or ended well."""
    found = [_failed(failure, veil) for failure in task.failures]
    last = found[-1].attempt if found else 0
    if task.started_at is not None and task.attempt > last:
        found.append(
            AttemptView(
                attempt=task.attempt,
                outcome=task.state,
                started_at=iso(task.started_at),
                ended_at=iso_or_none(task.ended_at),
                node=task.node,
            )
        )
    return found


def _failed(failure: FailedAttempt, veil: Veil) -> AttemptView:
    return AttemptView(
        attempt=failure.attempt,
        outcome=failure.reason,
        started_at=iso_or_none(failure.started_at),
        ended_at=iso(failure.at),
        node=failure.node,
        error=_error(failure.error, veil, stack=True),
    )
