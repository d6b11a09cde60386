"""Runs bodies in children, which it keeps warm, stops, and replaces."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable

from taskyard.domain.outcome import Died, Failed, Outcome, Released, Snoozed
from taskyard.domain.task import TaskError
from taskyard.engine import tracing
from taskyard.engine.context import Desk
from taskyard.engine.executor import Done
from taskyard.engine.isolate import logs, messages
from taskyard.engine.isolate.child import OUT_OF_MEMORY
from taskyard.engine.isolate.link import KEEPER_LOST, Link
from taskyard.engine.isolate.messages import Gone, Order
from taskyard.engine.isolate.place import Place
from taskyard.engine.isolate.process import Process
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger
from taskyard.engine.registry import Kind, Style

STOP_GRACE = 5.0  # seconds a body has when its task is to stop
DRAIN_GRACE = 2.0  # and when the worker has to go
MAX_JOBS = 500  # after which a child is replaced
IDLE_SECONDS = 60.0  # after which a child that has nothing to do goes
PUT_OFF = 1.0  # seconds, when no process can be made
LAST_SPANS = 3.0  # seconds that children have for them when the worker stops
LEASE_PART = 0.9  # of a lease that is not renewed, after which the keeper kills its bodies

log = logger("isolate")


class ProcessExecutor:
    """A warm child serves one kind. There are as many as bodies run at once, and no more."""

    def __init__(
        self,
        done: Done,
        desk: Desk,
        *,
        grace: float,
        lease_seconds: float,
    ) -> None:
        self._done = done
        self._desk = desk
        self._grace = grace
        self._lease_seconds = lease_seconds
        self._until: float | None = None
        self._link: Link | None = None
        self._idle: dict[str, list[Process]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._stopping = False

    def start(self, job: Job) -> None:
        job.cancel = _nothing
        task = asyncio.create_task(self._run(job), name="taskyard-isolated")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def warm_up(self) -> None:
        """Start the keeper, before its first child is needed."""
        self._linked()

    def renewed(self, at: float) -> None:
        """The lease was renewed then; called from the thread that did it."""
        self._until = at + self._lease_seconds * LEASE_PART
        link = self._link
        if link is not None:
            link.renewed(self._until)

    async def stop(self) -> None:
        """Kill whatever still runs and wait until it is gone; idempotent."""
        self._stopping = True
        if self._sweep is not None:
            self._sweep.cancel()
        idle = [process for children in self._idle.values() for process in children]
        for process in idle:
            process.close()
        self._idle.clear()
        if idle and tracing.tracer() is not None:
            # They send their last spans before they leave.
            await asyncio.wait([process.gone for process in idle], timeout=LAST_SPANS)
        if self._link is not None:
            await self._link.stop()
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    # --- one job ---

    async def _run(self, job: Job) -> None:
        try:
            outcome = await self._outcome(job)
        except Exception as error:
            log.exception("isolate", task=job.claimed.id)
            outcome = job.raised(error)
        job.cancel = _nothing
        self._done(job, outcome)

    async def _outcome(self, job: Job) -> Outcome:
        while not self._stopping:
            try:
                process, is_new = await self._child_for(job.kind)
            except OSError as error:
                return self._put_off(job, str(error))
            if job.stop is not None:
                self._give_back(process, job.kind)
                return job.stopped()
            stopping = Stopping(job, process, self._patience)
            job.cancel = stopping.ask
            job.tell_pause = process.tell_pause
            try:
                ended = await process.run(job)
            finally:
                job.cancel = _nothing
                job.tell_pause = _nothing_told
                stopping.cancel()
            if isinstance(ended, messages.Done):
                return await self._ended(job, process, ended)
            process.close()
            if process.began or is_new or job.stop is not None:
                return self._death(job, ended)
            # A warm child that died before it read the job: another one will do.
        return Released()

    def _patience(self, stop: Stop) -> float:
        """Seconds from a wish that a body stop to SIGKILL; SIGTERM comes half-way."""
        match stop:
            case Stop.LOST:
                return 0.0  # somebody else may have the task
            case Stop.DRAIN:
                return min(DRAIN_GRACE, self._grace, self._lease_seconds / 10)
            case Stop.CANCEL | Stop.PAUSE | Stop.TIMEOUT:
                return min(STOP_GRACE, self._grace)

    async def _child_for(self, kind: Kind) -> tuple[Process, bool]:
        """One that waits for work, or else a new one."""
        idle = self._idle.get(kind.name, [])
        while idle:
            process = idle.pop()
            if not process.gone.done():
                return process, False
            process.close()
        order = Order(
            Place.of(kind),
            _memory_limit(kind),
            list(sys.path),
            logs.levels(),
            self._desk.least_kept,
        )
        return await self._linked().fork(order), True

    def _linked(self) -> Link:
        if self._link is None or not self._link.is_up:
            self._link = Link(self._desk)
            if self._until is not None:
                self._link.renewed(self._until)
        return self._link

    async def _ended(self, job: Job, process: Process, done: messages.Done) -> Outcome:
        if not done.alone:
            # Its room is free when everything that it has started is gone.
            log.warning("a body has left processes behind", task=job.claimed.id, pid=process.pid)
            process.end()
            await asyncio.shield(process.gone)
            process.close()
        elif done.spent or process.jobs >= MAX_JOBS or _has_grown(job.kind, done.resident):
            process.close()
        else:
            self._give_back(process, job.kind)
        return done.outcome

    def _death(self, job: Job, gone: Gone) -> Outcome:
        """What the end of a child means for the job that it had."""
        if gone.why == "memory":
            limit = _memory_limit(job.kind)
            return Failed(TaskError(OUT_OF_MEMORY, f"it used more than its {limit:,} bytes"))
        if job.stop is not None:
            return job.stopped()
        if gone.why in (KEEPER_LOST, "lease"):
            return Released()
        if gone.why:
            return self._put_off(job, gone.why)
        return Died(TaskError("Died", _how(gone.status)), job.claimed.losses)

    def _put_off(self, job: Job, why: str) -> Outcome:
        """This machine cannot make a process now: not the task's doing."""
        log.error("no process for a body", task=job.claimed.id, error=why)
        return Snoozed(PUT_OFF)

    # --- children with nothing to do ---

    def _give_back(self, process: Process, kind: Kind) -> None:
        if self._stopping:
            process.close()
            return
        process.idle_since = time.monotonic()
        self._idle.setdefault(kind.name, []).append(process)
        if self._sweep is None:
            self._sweep_later()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(IDLE_SECONDS, self._let_go)

    def _let_go(self) -> None:
        """The last one back is the first to work again, so those too many wait here longest."""
        self._sweep = None
        oldest = time.monotonic() - IDLE_SECONDS
        for name, children in self._idle.items():
            for process in children:
                if process.idle_since <= oldest:
                    process.close()
            self._idle[name] = [each for each in children if each.idle_since > oldest]
        if any(self._idle.values()):
            self._sweep_later()


class Stopping:
    """First the body is told, then its group gets SIGTERM, then the whole tree SIGKILL."""

    def __init__(self, job: Job, process: Process, patience: Callable[[Stop], float]) -> None:
        self._job = job
        self._process = process
        self._patience = patience
        self._end_at = float("inf")
        self._timers: list[asyncio.TimerHandle] = []

    def ask(self) -> None:
        stop = self._job.stop
        assert stop is not None
        self._process.ask(stop)
        patience = self._patience(stop)
        end_at = time.monotonic() + patience
        if end_at >= self._end_at:
            return  # asked before, and it ends sooner
        self._end_at = end_at
        self.cancel()
        loop = asyncio.get_running_loop()
        self._timers = [
            loop.call_later(patience / 2, self._process.terminate),
            loop.call_later(patience, self._process.end),
        ]

    def cancel(self) -> None:
        for timer in self._timers:
            timer.cancel()


def _memory_limit(kind: Kind) -> int:
    """A suspect runs here though its kind does not: what it may use was not limited there."""
    return kind.memory_limit if kind.style is Style.PROCESS else 0


def _has_grown(kind: Kind, resident: int) -> bool:
    limit = _memory_limit(kind)
    return bool(limit) and resident > limit / 2


def _how(status: int) -> str:
    if status >= 0:
        return f"its process left with exit code {status} before the body had ended"
    name = f"signal {-status}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-status).name
    hint = "; the kernel does so when memory ends" if status == -signal.SIGKILL else ""
    return f"its process was killed by {name}{hint}"


def _nothing_told(_wanted: bool) -> None:
    """There is no body that could pause."""


def _nothing() -> None:
    """There is no body to interrupt, or it has ended."""
