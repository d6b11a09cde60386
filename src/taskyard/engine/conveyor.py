"""Carries tasks through a worker: from their claim to their bodies, from there to their verdicts.

What a worker can do in a second hangs on how little is done here for a body that just ends well.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from taskyard.domain.node import Lease
from taskyard.domain.outcome import (
    Died,
    Failed,
    Outcome,
    Paused,
    Released,
    Snoozed,
    Succeeded,
    completed,
    decide,
)
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.task import Claimed
from taskyard.engine import journal, tracing
from taskyard.engine.bodies import Bodies
from taskyard.engine.brake import Brake
from taskyard.engine.context import Context
from taskyard.engine.hand import Hand
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger
from taskyard.engine.logbook import LogBook
from taskyard.engine.membership import given_back
from taskyard.engine.pausing import Pauses
from taskyard.engine.pump import Pump
from taskyard.engine.registry import Registry
from taskyard.engine.tally import COMPLETED, Tally, how_it_ended
from taskyard.engine.timekeeper import Timekeeper

PUT_OFF = 1.0  # seconds

log = logger("worker")


class Conveyor:
    """`bodies` and `pump`, between which it runs, are given to it before the first claim."""

    bodies: Bodies
    pump: Pump

    def __init__(
        self,
        hand: Hand,
        registry: Registry,
        make_context: Callable[[Claimed], Context],
        *,
        may_begin: Callable[[Lease], bool],
        timekeeper: Timekeeper,
        pauses: Pauses,
        logs: LogBook,
        tally: Tally,
        brake: Brake,
    ) -> None:
        self._hand = hand
        self._registry = registry
        self._make_context = make_context
        self._may_begin = may_begin
        self._timekeeper = timekeeper
        self._pauses = pauses
        self._logs = logs
        self._tally = tally
        self._brake = brake
        self._traces = self._tells = False  # whether anybody wants to know of bodies

    def take(self, lease: Lease, tasks: list[Claimed], ahead: frozenset[int]) -> None:
        if not self._may_begin(lease):
            # An answer that comes so late may be of attempts that others have by now, or that
            # nobody would wait for: no body must begin. Giving back is fenced: it harms nobody.
            for claimed in tasks:
                self.pump.add(given_back(claimed.hold))
            return
        # Asked once for all of them: a body may take less time than these questions.
        self._traces, self._tells = tracing.tracer() is not None, journal.is_heard()
        hand, make_context = self._hand, self._make_context
        now = time.monotonic()
        here = hand.numbers()
        route, kind = "", None
        for claimed in tasks:
            no = claimed.no
            if no in here:
                self._take_again(claimed)
                continue
            if kind is None or claimed.kind != route:  # those that are alike come together
                route = claimed.kind
                kind = self._registry[route]
            job = Job(claimed, kind, make_context, now)
            if no in ahead:
                hand.ahead.append(job)
            else:
                self._begin(job)
        self._fill()

    def _take_again(self, claimed: Claimed) -> None:
        """A store that lost its last writes gives out anew what is in our hands already.

        If it is the same attempt, that one goes on and the store knows of it again. Beside the
        body of any other no new one may begin: the task waits until that body has gone.
        """
        job = self._hand.running.get(claimed.no)
        gone = job is not None and job.stop is Stop.LOST
        if gone or not self._hand.knows(claimed.hold):
            log.warning("put off: another attempt is still here", task=claimed.id)
            self.pump.add(decide(claimed, Snoozed(PUT_OFF), RetryPolicy()))

    def _fill(self) -> None:
        hand = self._hand
        while hand.ahead and len(hand.running) < hand.slots:
            job = hand.ahead.popleft()
            hand.unmarked[job.claimed.no] = job
            self._begin(job)

    def _begin(self, job: Job) -> None:
        self._hand.took(job)
        self.bodies.start(job)
        if self._tells:
            journal.claimed(job)

    def on_start(self, job: Job) -> None:
        """Its body begins."""
        self._timekeeper.watch(job)
        if self._traces:
            job.span = tracing.run(job.claimed)

    def done(self, job: Job, outcome: Outcome) -> None:
        """Its body has ended."""
        hand = self._hand
        if job.started is not None:
            job.ran = time.monotonic() - job.started
        hand.ended(job)
        if self._pauses.asked:
            self._pauses.ended(job)
        if not self._logs.is_empty:
            self._logs.ended(job.claimed.hold)
        if job.stop is Stop.LOST:
            self._drop(job)
        elif type(outcome) is Succeeded and not self._tells and job.span is None:
            self.pump.add(completed(job.claimed, outcome))
            self._tally.add(job, COMPLETED)
        else:
            self._settle(job, outcome)
        if hand.ahead:
            self._fill()
        elif not hand.running:
            self.pump.ran_out()

    def _drop(self, job: Job) -> None:
        self._logs.forget([job.claimed.hold])
        journal.dropped(job)
        if job.span is not None:
            job.span.end("lost")

    def _settle(self, job: Job, outcome: Outcome) -> None:
        # A paused body is given back: whether its task is still to be paused, the store knows.
        heeded = Released() if isinstance(outcome, Paused) else outcome
        verdict = decide(job.claimed, heeded, job.kind.retry)
        how = how_it_ended(outcome, verdict)
        self.pump.add(verdict)
        self._tally.add(job, how)
        journal.finished(job, outcome, verdict)
        if job.span is not None:
            error = outcome.error if isinstance(outcome, Failed | Died) else None
            job.span.end(how, error)
        if isinstance(outcome, Failed) and outcome.pauses_lane is not None:
            self._brake.pull(job.claimed.lane, outcome.pauses_lane)
