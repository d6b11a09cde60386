"""Runs bodies: coroutines on the loop, plain functions in threads.

Each executor turns user code into an Outcome and hands it back; nothing here writes to a store.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from taskyard.domain.outcome import Outcome
from taskyard.engine.body import run_coroutine, run_plain
from taskyard.engine.job import Job

Done = Callable[[Job, Outcome], None]


class CoroutineExecutor:
    """Long-lived runners that take one job after the other.

    A task for each body would cost more than many bodies do. A runner that was cancelled, or
    whose context variables a body has changed, is not used again.
    """

    def __init__(self, done: Done) -> None:
        self._done = done
        self._idle: list[asyncio.Future[Job | None]] = []
        self._runners: set[asyncio.Task[None]] = set()

    def start(self, job: Job) -> None:
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(job)
                return
        runner = asyncio.create_task(self._run(job), name="taskyard-runner")
        self._runners.add(runner)
        runner.add_done_callback(self._runners.discard)

    async def stop(self) -> None:
        for waiting in self._idle:
            if not waiting.done():
                waiting.set_result(None)
        self._idle.clear()
        if self._runners:
            await asyncio.gather(*self._runners, return_exceptions=True)

    async def _run(self, first: Job) -> None:
        task = asyncio.current_task()
        assert task is not None
        fresh = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        job: Job | None = first
        while job is not None:
            job.cancel = partial(_cancel, task)
            outcome = await run_coroutine(job)
            job.cancel = _gone
            spoilt = task.cancelling() > 0 or contextvars.copy_context() != fresh
            while task.cancelling():
                task.uncancel()
            waiting: asyncio.Future[Job | None] = loop.create_future()
            if not spoilt:
                self._idle.append(waiting)
            self._done(job, outcome)
            if spoilt:
                return
            job = await waiting


class ThreadExecutor:
    """Daemon threads, made as they are needed, so that a body that hangs cannot stop an exit."""

    def __init__(self, done: Done, loop: asyncio.AbstractEventLoop) -> None:
        self._done = done
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._free = 0
        self._threads = 0

    def start(self, job: Job) -> None:
        job.cancel = _gone  # a thread cannot be cancelled: it looks at ctx.cancelled itself
        self._jobs.put(job)
        if self._free > 0:
            self._free -= 1
            return
        self._threads += 1
        threading.Thread(
            target=self._run, name=f"taskyard-body-{self._threads}", daemon=True
        ).start()

    def stop(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            outcome = contextvars.copy_context().run(run_plain, job)
            try:
                self._loop.call_soon_threadsafe(self._finished, job, outcome)
            except RuntimeError:
                return  # the loop has gone, and with it everyone who could want the outcome

    def _finished(self, job: Job, outcome: Outcome) -> None:
        self._free += 1
        self._done(job, outcome)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _gone() -> None:
    """The body has ended, or cannot be interrupted."""
