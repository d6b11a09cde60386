"""How a body ended, and what becomes of its task.

The executor turns user code into an Outcome; `decide` turns it into a Verdict; the store
applies the Verdict if the attempt is still the accepted one.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from taskyard.domain.clock import bounded
from taskyard.domain.node import Lease
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.state import TERMINAL, Reason, State, allows
from taskyard.domain.task import Claimed, TaskError

POISON_LOSSES = 3


class Succeeded(msgspec.Struct, frozen=True, tag=True):
    result: str | None = None  # JSON


class Failed(msgspec.Struct, frozen=True, tag=True):
    error: TaskError
    reason: Reason = Reason.ERROR
    retry: bool = True  # what the classifier advised
    after: float | None = None  # a delay that was asked for


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    delay: float


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """The body ended because the task is to be cancelled."""

    reason: Reason = Reason.OPERATOR


class Released(msgspec.Struct, frozen=True, tag=True):
    """Given back unfinished by its worker: drained, or claimed ahead and not started."""


class Died(msgspec.Struct, frozen=True, tag=True):
    """The process of the body ended under it, and with it nothing else."""

    error: TaskError
    losses: int  # of this task before


Outcome = Succeeded | Failed | Snoozed | Stopped | Released | Died


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One fenced write: it holds only while (no, attempt, lease) is the accepted attempt.

    The lease counts because a server that lost its last writes gives their attempts out again.
    """

    no: int
    id: str
    attempt: int
    lease: Lease = 0  # 0: not compared
    state: State
    reason: Reason
    charge: int = 0
    losses: int = 0
    delay: float | None = None  # seconds until it is due again
    keeps_place: bool = False  # False: to the back of its order, with a new seq
    result: str | None = None
    error: TaskError | None = None


class Finished(msgspec.Struct, frozen=True, gc=False):
    no: int
    state: State


class Stale(msgspec.Struct, frozen=True, gc=False):
    """The attempt was no longer the accepted one; nothing was changed."""

    no: int
    attempt: int


def decide(task: Claimed, outcome: Outcome, policy: RetryPolicy) -> Verdict:
    """What becomes of a task whose body ended like this."""

    def verdict(
        state: State,
        reason: Reason,
        *,
        charge: int = 1,
        delay: float | None = None,
        result: str | None = None,
        error: TaskError | None = None,
        keeps_place: bool = False,
        losses: int = 0,
    ) -> Verdict:
        return Verdict(
            no=task.no,
            id=task.id,
            attempt=task.attempt,
            lease=task.lease,
            state=state,
            reason=reason,
            charge=charge,
            delay=delay,
            result=result,
            error=error,
            keeps_place=keeps_place,
            losses=losses,
        )

    match outcome:
        case Succeeded(result):
            return verdict(State.COMPLETED, Reason.FINISHED, result=result)
        case Failed(error, reason, retry, after):
            charged = task.charged + 1
            again = retry and allows(State.RUNNING, State.PENDING, reason)
            if again and charged < task.max_charged:
                delay = policy.delay(charged, asked=after)
                return verdict(State.PENDING, reason, error=error, delay=delay)
            return verdict(State.FAILED, reason, error=error)
        case Snoozed(delay):
            return verdict(State.PENDING, Reason.SNOOZED, charge=0, delay=bounded(delay))
        case Stopped(reason):
            return verdict(State.CANCELLED, reason, charge=0)
        case Released():
            # Not the task's doing: it keeps its place and its budget.
            return verdict(State.QUEUED, Reason.RELEASED, charge=0, keeps_place=True)
        case Died(error, losses) if losses + 1 >= POISON_LOSSES:
            return verdict(State.FAILED, Reason.POISON, error=error, losses=1)
        case Died(error):
            # Its own doing, unlike the death of a node: it waits as after an error.
            charged = task.charged + 1
            if charged >= task.max_charged:
                return verdict(State.FAILED, Reason.LOST, error=error, losses=1)
            delay = policy.delay(charged)
            return verdict(State.PENDING, Reason.LOST, error=error, delay=delay, losses=1)
        case _:
            assert_never(outcome)


def heed(verdict: Verdict, asked: str | None) -> Verdict:
    """A task that was asked to stop does not come back, however its body ended."""
    if asked == "cancel" and verdict.state not in TERMINAL:
        return msgspec.structs.replace(
            verdict, state=State.CANCELLED, reason=Reason.OPERATOR, delay=None, keeps_place=False
        )
    return verdict


class LostRun(msgspec.Struct, frozen=True, kw_only=True):
    """A running task whose node is gone."""

    no: int
    id: str
    attempt: int
    charged: int
    max_charged: int
    losses: int
    started: bool  # False: claimed ahead, its body had not started
    asked: str | None = None


def decide_lost(run: LostRun, *, poison_losses: int = POISON_LOSSES) -> Verdict:
    """What becomes of a task whose node died under it.

    The store cannot see the instant between claim and first line of the body, so a task that
    was claimed to start at once counts as started: the other reading would let a task that
    kills its process do so for ever.
    """

    def verdict(state: State, reason: Reason, *, keeps_place: bool = False) -> Verdict:
        lost = int(run.started)
        return Verdict(
            no=run.no,
            id=run.id,
            attempt=run.attempt,
            state=state,
            reason=reason,
            charge=lost,
            losses=lost,
            keeps_place=keeps_place,
            error=TaskError("Lost", "the node died while it ran this task") if lost else None,
        )

    if run.asked == "cancel":
        return verdict(State.CANCELLED, Reason.OPERATOR)
    if run.started and run.losses + 1 >= poison_losses:
        return verdict(State.FAILED, Reason.POISON)
    if run.started and run.charged + 1 >= run.max_charged:
        return verdict(State.FAILED, Reason.LOST)
    return verdict(State.QUEUED, Reason.RESCUED, keeps_place=True)
