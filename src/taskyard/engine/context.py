"""What a handler sees of its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import msgspec

from taskyard.domain.errors import InvalidOption, PayloadTooLarge, StaleAttempt
from taskyard.domain.logs import Level
from taskyard.domain.node import Hold
from taskyard.domain.task import MAX_CHECKPOINT_BYTES, Claimed, Enqueue, NewTask, Progress
from taskyard.engine.dependencies import Returns, plain, result_of
from taskyard.engine.lines import collector
from taskyard.engine.log import Logger
from taskyard.engine.resources import Resource, Resources
from taskyard.store.port import Ending

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

T = TypeVar("T")


class PauseSignal(BaseException):
    """Ends a body whose task is to be paused.

    Not an Exception, so that what a handler catches for itself does not hold it up.
    """


class Desk(Protocol):
    """What a context may ask of the worker that made it."""

    async def report(self, hold: Hold, progress: Progress) -> bool: ...

    async def checkpoint(self, hold: Hold, data: str) -> bool: ...

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None) -> list[Enqueue]: ...

    async def dependencies(self, task_id: str) -> list[Ending]: ...

    @property
    def resources(self) -> Resources: ...

    @property
    def least_kept(self) -> int:
        """The level of `logging` from which on lines are kept with their attempt."""

    def keep_line(self, hold: Hold, level: Level, text: str) -> None:
        """Does not wait, and may be called from any thread."""


class Context:
    """The first argument of a handler that wants one, called `ctx`."""

    __slots__ = ("_claimed", "_desk", "_log", "_loop", "_pausing", "_saved", "_stop")

    def __init__(
        self,
        claimed: Claimed,
        desk: Desk,
        log: Logger,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._claimed = claimed
        self._desk = desk
        self._log = log
        self._loop = loop
        self._stop = False  # read by the body's thread; an Event would cost more than a body
        self._pausing = False
        self._saved = claimed.checkpoint

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
    def log(self) -> BoundLogger:
        """What is said here goes to the log of the program, and is kept with this attempt."""
        about = {"task": self.id, "kind": self.kind, "attempt": self.attempt}
        keep = partial(self._desk.keep_line, self.hold)
        return self._log.collecting(collector(keep, self._desk.least_kept, about), about)

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

    @property
    def pausing(self) -> bool:
        """Whether the task is to be paused. The body may go on to its next checkpoint."""
        return self._pausing

    def ask_to_pause(self, wanted: bool) -> None:
        self._pausing = wanted

    @property
    def saved(self) -> Any:
        """What was last kept by `checkpoint`, by this attempt or an earlier one, as plain data."""
        return None if self._saved is None else msgspec.json.decode(self._saved)

    def saved_as(self, kind: type[T]) -> T | None:
        """The same as this type: a dataclass, a Struct, `dict[str, int]`, …"""
        return None if self._saved is None else msgspec.json.decode(self._saved, type=kind)

    def checkpoint(self, data: object = msgspec.UNSET) -> Coroutine[Any, Any, None]:
        """Keep `data` for the attempts to come; if the task is to be paused, the body ends here.

        A task that is resumed, or whose worker died, finds it in `ctx.saved`. Without data this is
        only a place to end at. In a plain function use `checkpoint_blocking`.
        """
        self._require_loop("checkpoint_blocking")
        return self._keep_or_end(data)

    async def _keep_or_end(self, data: object) -> None:
        await self._keep(data)
        self._end_here()

    def checkpoint_blocking(self, data: object = msgspec.UNSET) -> None:
        """`checkpoint` for plain functions."""
        self._wait_for(lambda: self._keep(data))
        self._end_here()

    async def _keep(self, data: object) -> None:
        if data is msgspec.UNSET:
            return
        text = self._encoded(data)
        if not await self._desk.checkpoint(self.hold, text):
            raise StaleAttempt(f"attempt {self.attempt} of task {self.id} is no longer accepted")
        self._saved = text

    def _end_here(self) -> None:
        self.raise_if_cancelled()
        if self.pausing:
            raise PauseSignal

    def _encoded(self, data: object) -> str:
        try:
            encoded = msgspec.json.encode(data)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidOption(f"a checkpoint is what JSON can hold: {error}") from error
        if len(encoded) > MAX_CHECKPOINT_BYTES:
            raise PayloadTooLarge(
                f"the checkpoint of this {self.kind} task is {len(encoded):,} bytes, the limit is "
                f"{MAX_CHECKPOINT_BYTES:,}; store the data elsewhere and keep a reference to it"
            )
        return encoded.decode()

    def progress(
        self, done: float, total: float | None = None, note: str = ""
    ) -> Coroutine[Any, Any, None]:
        """Tell how far this attempt has come; raises StaleAttempt if it no longer counts.

        In a plain function (a thread) use `report`.
        """
        self._require_loop("report")
        return self._report(Progress(done, total, note))

    def report(self, done: float, total: float | None = None, note: str = "") -> None:
        """`progress` for plain functions: blocks until it is stored."""
        self._wait_for(lambda: self._report(Progress(done, total, note)))

    async def _report(self, progress: Progress) -> None:
        if not await self._desk.report(self.hold, progress):
            raise StaleAttempt(f"attempt {self.attempt} of task {self.id} is no longer accepted")

    def enqueue(self, *tasks: NewTask) -> Coroutine[Any, Any, list[Enqueue]]:
        """Enqueue children: saved only while this attempt is the accepted one."""
        self._require_loop("enqueue_blocking")
        return self._desk.enqueue(tasks, by=self.hold)

    def enqueue_blocking(self, *tasks: NewTask) -> list[Enqueue]:
        """`enqueue` for plain functions."""
        return self._wait_for(lambda: self._desk.enqueue(tasks, by=self.hold))

    def dependencies(self) -> Coroutine[Any, Any, list[Ending]]:
        """How the tasks that this one depends on have ended, in the order of `depends_on`."""
        self._require_loop("dependencies_blocking")
        return self._desk.dependencies(self.id)

    def dependencies_blocking(self) -> list[Ending]:
        """`dependencies` for plain functions."""
        return self._wait_for(lambda: self._desk.dependencies(self.id))

    @overload
    def results(self) -> Coroutine[Any, Any, list[Any]]: ...

    @overload
    def results(self, kind: Returns[T]) -> Coroutine[Any, Any, list[T]]: ...

    def results(self, kind: Returns[Any] | None = None) -> Coroutine[Any, Any, list[Any]]:
        """What the tasks that this one depends on have returned, in the order of `depends_on`.

        As plain data, or as the results of this kind: `[image] = await ctx.results(fetch)`. If one
        of them has no result, this raises TaskFailed or TaskCancelled; `dependencies` does not.
        """
        self._require_loop("results_blocking")
        return self._results(kind)

    async def _results(self, kind: Returns[Any] | None) -> list[Any]:
        decode = plain if kind is None else kind.decode_result
        endings = await self._desk.dependencies(self.id)
        return [result_of(ending, decode) for ending in endings]

    @overload
    def results_blocking(self) -> list[Any]: ...

    @overload
    def results_blocking(self, kind: Returns[T]) -> list[T]: ...

    def results_blocking(self, kind: Returns[Any] | None = None) -> list[Any]:
        """`results` for plain functions."""
        return self._wait_for(lambda: self._results(kind))

    def resource(self, resource: Resource[T]) -> Coroutine[Any, Any, T]:
        """What `@yard.resource` declares: made at its first use, shared by all bodies here."""
        self._require_loop("resource_blocking")
        return self._desk.resources.get(resource)

    def resource_blocking(self, resource: Resource[T]) -> T:
        """`resource` for plain functions."""
        return self.awaited(lambda: self._desk.resources.get(resource))

    def awaited(self, make: Callable[[], Coroutine[object, object, T]]) -> T:
        """Have this done on the worker's loop; for the thread of a plain function."""
        return self._wait_for(make)

    def _require_loop(self, instead: str) -> None:
        """A coroutine that nobody can await would be dropped without a word."""
        if not self._is_on_loop():
            raise RuntimeError(f"in a plain function use ctx.{instead}(…): it cannot await")

    def _is_on_loop(self) -> bool:
        return _on(self._loop)

    def _wait_for(self, make: Callable[[], Coroutine[object, object, T]]) -> T:
        """From the body's thread to the worker's loop and back."""
        if self._is_on_loop():
            raise RuntimeError(
                "this would block the event loop for ever: in an async handler use "
                "`await ctx.progress(…)`, `await ctx.checkpoint(…)` and `await ctx.enqueue(…)`"
            )
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result()


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False  # a thread without a loop
