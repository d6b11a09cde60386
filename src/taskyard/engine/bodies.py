"""Starts each body where it belongs: on the loop, in a thread, or in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskyard.domain.outcome import Outcome
from taskyard.engine.context import Desk
from taskyard.engine.executor import CoroutineExecutor, Done, ThreadExecutor
from taskyard.engine.isolate.place import require_importable
from taskyard.engine.job import Job
from taskyard.engine.log import logger
from taskyard.engine.registry import Kind, Style
from taskyard.engine.suspects import Suspects

log = logger("worker")


class Bodies:
    """A suspect, lost before with its node or process, has a process of its own whatever its kind:
    if it is to blame, its neighbours do not die with it.
    """

    def __init__(
        self,
        done: Done,
        desk: Desk,
        *,
        on_start: Callable[[Job], None],
        grace: float,
        lease_seconds: float,
    ) -> None:
        from taskyard.engine.isolate.executor import (  # noqa: PLC0415 - only those who work need it
            ProcessExecutor,
        )

        self._done = done
        self._on_start = on_start
        self._coroutines = CoroutineExecutor(done)
        self._threads = ThreadExecutor(done, asyncio.get_running_loop())
        self.processes = ProcessExecutor(
            self._process_done, desk, grace=grace, lease_seconds=lease_seconds
        )
        self._suspects = Suspects(self._start, done)
        self._importable: dict[str, bool] = {}

    def start(self, job: Job) -> None:
        """At once, but for a suspect before which there are others."""
        if job.claimed.losses and job.style is not Style.PROCESS and self._can_be_alone(job.kind):
            job.is_alone = True
            self._suspects.add(job)
        else:
            self._start(job)

    @property
    def has_waiting(self) -> bool:
        """Whether bodies on the loop wait for others there, and for nothing else."""
        return self._coroutines.has_waiting

    def give_back_waiting(self) -> None:
        self._suspects.give_back()

    def _process_done(self, job: Job, outcome: Outcome) -> None:
        self._done(job, outcome)
        self._suspects.ended(job)

    def _start(self, job: Job) -> None:
        self._on_start(job)
        style = job.kind.style
        if job.is_alone or style is Style.PROCESS:
            self.processes.start(job)
        elif style is Style.COROUTINE:
            self._coroutines.start(job)
        else:
            self._threads.start(job)

    async def stop(self, *, all_gone: bool) -> None:
        """`all_gone`: no body is left that could still be waited for."""
        if all_gone:
            await self._coroutines.stop()
        self._threads.stop()

    def _can_be_alone(self, kind: Kind) -> bool:
        known = self._importable.get(kind.name)
        if known is None:
            known = self._importable[kind.name] = _is_importable(kind)
        return known


def _is_importable(kind: Kind) -> bool:
    try:
        require_importable(kind)
    except Exception as error:
        log.warning("suspects of this kind run beside others", kind=kind.name, why=str(error))
        return False
    return True
