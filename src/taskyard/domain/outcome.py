"""How a body ended, and what becomes of its task.

The executor turns user code into an Outcome; `decide` turns it into a Verdict; the store
applies the Verdict if the attempt is still the accepted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from taskyard.domain.clock import bounded
from taskyard.domain.node import Lease
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.state import TERMINAL, Reason, State, allows
from taskyard.domain.task import Claimed, TaskError

POISON_LOSSES = 3


class Succeeded(msgspec.Struct, frozen=True, tag=True, gc=False):
    result: str | None = None  # JSON


class Failed(msgspec.Struct, frozen=True, tag=True):
    error: TaskError
    reason: Reason = Reason.ERROR
    retry: bool = True  # what the classifier advised
    after: float | None = None  # a delay that was asked for
    pauses_lane: str | None = None  # why nothing else of its lane should start now


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    delay: float


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """The body ended because the task is to be cancelled."""

    reason: Reason = Reason.OPERATOR


class Paused(msgspec.Struct, frozen=True, tag=True):
    """The body ended because the task is to be paused; it goes on from its checkpoint."""


class Released(msgspec.Struct, frozen=True, tag=True):
    """Given back unfinished by its worker: drained, or claimed ahead and not started."""


class Died(msgspec.Struct, frozen=True, tag=True):
    """The process of the body ended under it, and with it nothing else."""

    error: TaskError
    losses: int  # of this task before


Outcome = Succeeded | Failed | Snoozed | Stopped | Paused | Released | Died


_COMPLETED, _FINISHED = State.COMPLETED, Reason.FINISHED


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """One fenced write: it holds only while (no, attempt, lease) is the accepted attempt.

    The lease counts because a server that lost its last writes gives their attempts out again.
    """

    no: int
    id: str
    attempt: int
    state: State
    reason: Reason
    lease: Lease = 0  # 0: not compared
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
    if isinstance(outcome, Succeeded):
        return completed(task, outcome)

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
        case Paused():
            return verdict(State.PAUSED, Reason.OPERATOR, charge=0, keeps_place=True)
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


def completed(task: Claimed, outcome: Succeeded) -> Verdict:
    """`decide` for what most bodies do; by place, which takes half the time."""
    charge, losses, delay, keeps_place = 1, 0, None, False
    return Verdict(
        task.no,
        task.id,
        task.attempt,
        _COMPLETED,
        _FINISHED,
        task.lease,
        charge,
        losses,
        delay,
        keeps_place,
        outcome.result,
    )


def heed(verdict: Verdict, asked: str | None) -> Verdict:
    """A task that was asked to stop does not come back by itself, however its body ended."""
    if verdict.state in TERMINAL:
        return verdict
    match asked:
        case "cancel":
            return msgspec.structs.replace(
                verdict,
                state=State.CANCELLED,
                reason=Reason.OPERATOR,
                delay=None,
                keeps_place=False,
            )
        case "pause":
            # With the delay it was to wait: a task that is resumed before waits for the rest.
            return msgspec.structs.replace(verdict, state=State.PAUSED, reason=Reason.OPERATOR)
        case _:
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


def decide_lost(runs: Sequence[LostRun], *, poison_losses: int = POISON_LOSSES) -> list[Verdict]:
    """What becomes of the tasks whose node died under them.

    A task that was lost before is a suspect: it runs in a process of its own, whose death is no
    death of the node. So where others ran beside it, one of those has done it: the suspect goes
    back as if nothing had been. Where there were only suspects, they are to blame. At least one
    is counted each time, so a task that kills its node does not do so for ever.

    The store cannot see the instant between claim and first line of the body, so a task that
    was claimed to start at once counts as started.
    """
    beside = any(run.started and run.losses == 0 for run in runs)
    return [
        _decide_lost(run, poison_losses, blamed=run.started and not (beside and run.losses > 0))
        for run in runs
    ]


def _decide_lost(run: LostRun, poison_losses: int, *, blamed: bool) -> Verdict:
    def verdict(state: State, reason: Reason, *, keeps_place: bool = False) -> Verdict:
        return Verdict(
            no=run.no,
            id=run.id,
            attempt=run.attempt,
            state=state,
            reason=reason,
            charge=int(blamed),
            losses=int(blamed),
            keeps_place=keeps_place,
            error=TaskError("Lost", "the node died while it ran this task") if blamed else None,
        )

    if run.asked == "cancel":
        return verdict(State.CANCELLED, Reason.OPERATOR)
    if blamed and run.losses + 1 >= poison_losses:
        return verdict(State.FAILED, Reason.POISON)
    if blamed and run.charged + 1 >= run.max_charged:
        return verdict(State.FAILED, Reason.LOST)
    return heed(verdict(State.QUEUED, Reason.RESCUED, keeps_place=True), run.asked)
