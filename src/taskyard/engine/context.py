"""What a handler sees of its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Protocol, TypeVar

import structlog

from taskyard.domain.errors import StaleAttempt
from taskyard.domain.node import Hold
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress

T = TypeVar("T")


class Desk(Protocol):
    """What a context may ask of the worker that made it."""

    async def report(self, hold: Hold, progress: Progress) -> bool: ...

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None) -> list[Enqueue]: ...


class Context:
    """The first argument of a handler that wants one, called `ctx`."""

    __slots__ = ("_claimed", "_desk", "_log", "_loop", "_stop")

    def __init__(
        self,
        claimed: Claimed,
        desk: Desk,
        log: structlog.stdlib.BoundLogger,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._claimed = claimed
        self._desk = desk
        self._log = log
        self._loop = loop
        self._stop = False  # read by the body's thread; an Event would cost more than a body

    @property
    def id(self) -> str:
        return self._claimed.id

    @property
    def kind(self) -> str:
        return self._claimed.kind

    @property
    def attempt(self) -> int:
        """Grows by one at every claim of this task, for ever: a fence for what you write."""
        return self._claimed.attempt

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this task: pass it on, so that others do it once."""
        return self._claimed.idempotency_key

    @property
    def hold(self) -> Hold:
        return self._claimed.hold

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        return self._log.bind(task=self.id, kind=self.kind, attempt=self.attempt)

    @property
    def cancelled(self) -> bool:
        """Whether the body is to stop. A coroutine is cancelled anyway; a thread must look."""
        return self._stop

    def raise_if_cancelled(self) -> None:
        """The place where a thread lets itself be stopped."""
        if self.cancelled:
            raise asyncio.CancelledError

    def ask_to_stop(self) -> None:
        self._stop = True

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Tell how far this attempt has come: `await` it, also in the answer of a stale attempt.

        In a plain function (a thread) use `report`.
        """
        return self._report(Progress(done, total, note))

    def report(self, done: float, total: float | None = None, note: str = "") -> None:
        """`progress` for plain functions: blocks until it is stored."""
        self._wait_for(lambda: self._report(Progress(done, total, note)))

    async def _report(self, progress: Progress) -> None:
        if not await self._desk.report(self.hold, progress):
            raise StaleAttempt(f"attempt {self.attempt} of task {self.id} is no longer accepted")

    async def enqueue(self, *tasks: NewTask) -> list[Enqueue]:
        """Enqueue children: saved only while this attempt is the accepted one."""
        return await self._desk.enqueue(tasks, by=self.hold)

    def enqueue_blocking(self, *tasks: NewTask) -> list[Enqueue]:
        """`enqueue` for plain functions."""
        return self._wait_for(lambda: self.enqueue(*tasks))

    def awaited(self, make: Callable[[], Coroutine[object, object, T]]) -> T:
        """Have this done on the worker's loop; for the thread of a plain function."""
        return self._wait_for(make)

    def _wait_for(self, make: Callable[[], Coroutine[object, object, T]]) -> T:
        """From the body's thread to the worker's loop and back."""
        if _on(self._loop):
            raise RuntimeError(
                "this would block the event loop for ever: in an async handler use "
                "`await ctx.progress(…)` and `await ctx.enqueue(…)`"
            )
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result()


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False  # a thread without a loop
