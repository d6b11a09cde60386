"""Runs bodies: coroutines on the loop, plain functions in threads.

Each executor turns user code into an Outcome and hands it back; nothing here writes to a store.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from taskyard.domain.outcome import Outcome, Snoozed
from taskyard.engine.body import run_coroutine, run_plain
from taskyard.engine.job import Job
from taskyard.engine.log import logger

Done = Callable[[Job, Outcome], None]

log = logger("bodies")

TURN = 0.001  # seconds after which a runner lets others have the loop
PUT_OFF = 1.0  # seconds, when no thread can be made
_MISSING = object()


class _Turn:
    """What a runner does without letting anybody else have the loop."""

    __slots__ = ("is_broken", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self.is_broken = False  # a body has suspended


class CoroutineExecutor:
    """Long-lived runners that take one job after the other, in the order they were started.

    A task of asyncio for each body would cost more than many bodies do, so bodies that do not
    suspend share one. Whatever a body leaves behind stays with it: a runner is not used again once
    a body has suspended in it, has been cancelled, or has changed its context variables.
    """

    def __init__(self, done: Done) -> None:
        self._done = done
        self._context = contextvars.copy_context()  # runners begin with
        self._jobs: deque[Job] = deque()  # started, and taken by no runner yet
        self._idle: list[tuple[asyncio.Task[None], asyncio.Future[None]]] = []
        self._runners: set[asyncio.Task[None]] = set()
        self._coming: set[asyncio.Task[None]] = set()  # called, and to look at the jobs soon
        self._is_telling = False  # a runner tells of an end, and looks at the jobs after that
        self._suspend = False  # whether bodies do, as far as was seen last
        self._stopping = False

    def start(self, job: Job) -> None:
        self._jobs.append(job)
        if not self._is_telling and (self._suspend or not self._coming):
            self._call()

    @property
    def has_waiting(self) -> bool:
        """Whether there are bodies whose turn comes as soon as those before them are done."""
        return bool(self._jobs)

    async def stop(self) -> None:
        self._stopping = True
        for _, called in self._idle:
            if not called.done():
                called.set_result(None)
        self._idle.clear()
        if self._runners:
            await asyncio.gather(*self._runners, return_exceptions=True)

    def _call(self) -> None:
        """See that enough runners look at the jobs."""
        enough = len(self._jobs) if self._suspend else 1
        while len(self._coming) < enough:
            self._coming.add(self._woken() or self._made())

    def _woken(self) -> asyncio.Task[None] | None:
        while self._idle:
            runner, called = self._idle.pop()
            if not called.done():
                called.set_result(None)
                return runner
        return None

    def _made(self) -> asyncio.Task[None]:
        runner = asyncio.create_task(
            self._run(), name="taskyard-runner", context=self._context.copy()
        )
        runner.add_done_callback(self._ended)
        self._runners.add(runner)
        return runner

    def _ended(self, runner: asyncio.Task[None]) -> None:
        """Perhaps cut down on its way to the jobs."""
        self._runners.discard(runner)
        self._coming.discard(runner)
        if self._jobs:
            self._call()

    async def _run(self) -> None:
        runner = asyncio.current_task()
        assert runner is not None
        fresh = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        cancel = partial(_cancel, runner)
        jobs = self._jobs
        while True:
            self._coming.discard(runner)
            turn = _Turn()
            loop.call_soon(self._look, turn)
            turn_ends = time.monotonic() + TURN
            while jobs and time.monotonic() < turn_ends:
                job = jobs.popleft()
                if jobs and (self._suspend or not self._coming):
                    self._call()  # this body may suspend
                job.cancel = cancel
                # One that is asked to stop before it begins does not begin.
                if job.stop is not None:
                    outcome = job.stopped()
                elif job.span is None:
                    outcome = await run_coroutine(job)
                else:
                    with job.span.current():
                        outcome = await run_coroutine(job)
                job.cancel = _gone
                self._suspend = turn.is_broken
                if turn.is_broken or runner.cancelling() or _is_changed(fresh):
                    turn.is_over = True
                    while runner.cancelling():
                        runner.uncancel()
                    self._done(job, outcome)
                    return
                self._is_telling = True
                try:
                    self._done(job, outcome)
                finally:
                    self._is_telling = False
            turn.is_over = True
            if jobs and not self._coming:
                self._coming.add(runner)
                await asyncio.sleep(0)
            elif self._stopping:
                return
            else:
                called: asyncio.Future[None] = loop.create_future()
                self._idle.append((runner, called))
                await called

    def _look(self, turn: _Turn) -> None:
        """At a turn that the loop has come back from: at its end, or because a body suspended."""
        if not turn.is_over:
            turn.is_broken = self._suspend = True


class ThreadExecutor:
    """Daemon threads, made as they are needed, so that a body that hangs cannot stop an exit."""

    def __init__(self, done: Done, loop: asyncio.AbstractEventLoop) -> None:
        self._done = done
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ended: deque[tuple[Job, Outcome]] = deque()
        self._is_called = False  # the loop is to look at what has ended
        self._free = 0
        self._threads = 0

    def start(self, job: Job) -> None:
        job.cancel = _gone  # a thread cannot be cancelled: it looks at ctx.cancelled itself
        _ = job.context  # made now: its thread and the loop may want it at the same moment
        if self._free > 0:
            self._free -= 1
        else:
            name = f"taskyard-body-{self._threads + 1}"
            try:
                threading.Thread(target=self._run, name=name, daemon=True).start()
            except RuntimeError as error:  # this machine has no more: not the task's doing
                log.error("no thread for a body", task=job.claimed.id, error=str(error))
                self._loop.call_soon(self._done, job, Snoozed(PUT_OFF))
                return
            self._threads += 1
        self._jobs.put(job)

    def stop(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._ended.append((job, contextvars.copy_context().run(_run_plain, job)))
            if self._is_called:
                continue  # it looks at what has ended after this
            self._is_called = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                return  # the loop has gone, and with it everyone who could want the outcome

    def _tell(self) -> None:
        """Of all that have ended: to wake the loop for each would cost more than many bodies do.

        Whoever ends meanwhile calls again.
        """
        self._is_called = False
        for _ in range(len(self._ended)):
            job, outcome = self._ended.popleft()
            self._free += 1
            self._done(job, outcome)


def _run_plain(job: Job) -> Outcome:
    if job.span is None:
        return run_plain(job)
    with job.span.current():
        return run_plain(job)


def _is_changed(fresh: contextvars.Context) -> bool:
    """Whether a variable has another value; by identity: not everything can be compared."""
    now = contextvars.copy_context()
    if len(now) != len(fresh):
        return True
    return bool(fresh) and any(
        fresh.get(variable, _MISSING) is not value for variable, value in now.items()
    )


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _gone() -> None:
    """The body has ended, or cannot be interrupted."""
