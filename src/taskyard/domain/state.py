"""The states of a task and the one table of allowed transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from taskyard.domain.errors import IllegalTransition


class State(StrEnum):
    PENDING = "pending"  # waiting for its time, a retry delay, or tasks it depends on
    QUEUED = "queued"  # due, waiting for room
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"


class Reason(StrEnum):
    """Why a state changed, recorded beside what it changed to."""

    CREATED = "created"
    DUE = "due"
    CLAIMED = "claimed"
    FINISHED = "finished"
    ERROR = "error"
    FATAL = "fatal"
    TIMEOUT = "timeout"
    LOST = "lost"
    POISON = "poison"
    UNDECODABLE = "undecodable"
    EXPIRED = "expired"
    SNOOZED = "snoozed"
    RELEASED = "released"
    RESCUED = "rescued"
    BODY = "body"
    DEPENDENCY = "dependency"
    OPERATOR = "operator"
    SYSTEM = "system"


_BY_HAND = frozenset({Reason.OPERATOR, Reason.SYSTEM})

TRANSITIONS: Mapping[State, Mapping[State, frozenset[Reason]]] = {
    State.PENDING: {
        State.QUEUED: frozenset({Reason.DUE, Reason.DEPENDENCY, Reason.OPERATOR}),
        State.PAUSED: _BY_HAND,
        State.CANCELLED: _BY_HAND | {Reason.DEPENDENCY},
        State.FAILED: frozenset({Reason.DEPENDENCY, Reason.EXPIRED, Reason.UNDECODABLE}),
    },
    State.QUEUED: {
        State.RUNNING: frozenset({Reason.CLAIMED}),
        State.PAUSED: _BY_HAND,
        State.CANCELLED: _BY_HAND,
        State.FAILED: frozenset({Reason.EXPIRED, Reason.UNDECODABLE}),
    },
    State.RUNNING: {
        State.COMPLETED: frozenset({Reason.FINISHED}),
        State.FAILED: frozenset(
            {
                Reason.ERROR,
                Reason.FATAL,
                Reason.TIMEOUT,
                Reason.LOST,
                Reason.POISON,
                Reason.UNDECODABLE,
            }
        ),
        State.CANCELLED: _BY_HAND | {Reason.BODY},
        State.PAUSED: _BY_HAND,
        State.PENDING: frozenset({Reason.ERROR, Reason.TIMEOUT, Reason.LOST, Reason.SNOOZED}),
        State.QUEUED: frozenset({Reason.RELEASED, Reason.RESCUED}),
    },
    State.PAUSED: {
        State.PENDING: _BY_HAND,
        State.QUEUED: _BY_HAND,
        State.CANCELLED: _BY_HAND | {Reason.DEPENDENCY},
    },
}

TERMINAL: frozenset[State] = frozenset(State) - TRANSITIONS.keys()
WAITING: frozenset[State] = frozenset(TRANSITIONS) - {State.RUNNING}

# Not a transition but a new life of the row: audited, and the attempt goes on counting.
REVIVABLE: frozenset[State] = frozenset({State.FAILED, State.CANCELLED})


def allows(before: State, after: State, reason: Reason) -> bool:
    return reason in TRANSITIONS.get(before, {}).get(after, frozenset())


def require(task_id: str, before: State, after: State, reason: Reason) -> None:
    """Refuse what the table does not name, saying what the task could become instead."""
    if allows(before, after, reason):
        return
    possible = ", ".join(TRANSITIONS.get(before, {})) or "nothing: it has ended"
    raise IllegalTransition(
        f"task {task_id} is {before} and cannot become {after} ({reason}); "
        f"from {before} it can become {possible}"
    )


def require_revivable(task_id: str, before: State) -> None:
    if before not in REVIVABLE:
        allowed = " or ".join(sorted(REVIVABLE))
        raise IllegalTransition(
            f"task {task_id} is {before} and cannot be retried; only a {allowed} one can"
        )
