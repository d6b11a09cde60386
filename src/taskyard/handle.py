"""A handle on a task that was enqueued."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from taskyard.bridge import Blocking
from taskyard.domain.errors import ResultTimeout
from taskyard.domain.explain import Explanation
from taskyard.domain.logs import PAGE_LINES, LogLine, LogMark
from taskyard.domain.state import State
from taskyard.domain.task import Task
from taskyard.engine.dependencies import result_of
from taskyard.store.port import Cancellation, Ending, Pausing

R = TypeVar("R")
T = TypeVar("T")


class Office(Protocol):
    """What a handle asks of its yard."""

    async def get(self, task_id: str) -> Task: ...

    async def cancel(self, task_id: str, *, actor: str = ...) -> Cancellation: ...

    async def pause_task(self, task_id: str, *, actor: str = ...) -> Pausing: ...

    async def resume_task(self, task_id: str, *, actor: str = ...) -> None: ...

    async def retry(self, task_id: str, *, actor: str = ...) -> None: ...

    async def prioritize(self, task_id: str, priority: int, *, actor: str = ...) -> None: ...

    async def explain(self, task_id: str) -> Explanation: ...

    async def logs(
        self, task_id: str, *, after: LogMark | None = ..., limit: int = ...
    ) -> list[LogLine]: ...

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None: ...


class Handle(Generic[R]):
    def __init__(
        self,
        task_id: str,
        office: Office,
        decode: Callable[[str | None], R],
        *,
        duplicate: bool = False,
        changed: bool = False,
    ) -> None:
        self.id = task_id
        self.duplicate = duplicate  # True: nothing was enqueued, this is the task in its way
        self.changed = changed  # and it got the payload, or the later time, of the new one
        self._office = office
        self._decode = decode

    def at(self, office: Office) -> Handle[R]:
        """The same task, asked about elsewhere."""
        return Handle(self.id, office, self._decode, duplicate=self.duplicate, changed=self.changed)

    async def status(self) -> State:
        """Its state now."""
        return (await self.task()).state

    async def task(self) -> Task:
        """Everything about it."""
        return await self._office.get(self.id)

    async def cancel(self, *, actor: str = "python") -> Cancellation:
        """Waiting: it has ended. Running: its body is asked to stop."""
        return await self._office.cancel(self.id, actor=actor)

    async def pause(self, *, actor: str = "python") -> Pausing:
        """Waiting: it stays where it is. Running: its body is asked to end at a checkpoint."""
        return await self._office.pause_task(self.id, actor=actor)

    async def resume(self, *, actor: str = "python") -> None:
        """Let it wait again where it stood; it goes on from its checkpoint."""
        await self._office.resume_task(self.id, actor=actor)

    async def retry(self, *, actor: str = "python") -> None:
        """Give it a new life after it has failed or was cancelled, with all its retries."""
        await self._office.retry(self.id, actor=actor)

    async def prioritize(self, priority: int, *, actor: str = "python") -> None:
        """Change its place while it waits: 1 is first, 10 last."""
        await self._office.prioritize(self.id, priority, actor=actor)

    async def explain(self) -> Explanation:
        """What keeps it waiting."""
        return await self._office.explain(self.id)

    async def logs(self, *, after: LogMark | None = None, limit: int = PAGE_LINES) -> list[LogLine]:
        """What its bodies have said with `ctx.log`; the next page: `after=lines[-1].mark`."""
        return await self._office.logs(self.id, after=after, limit=limit)

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the task to end: its result, or TaskFailed, TaskCancelled, ResultTimeout."""
        ending = await self._office.ending(self.id, timeout)
        if ending is None:
            raise ResultTimeout(f"task {self.id} has not ended within {timeout:g} s")
        return result_of(ending, self._decode)

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"


class SyncHandle(Generic[R]):
    """The same for callers that block."""

    def __init__(self, handle: Handle[R], bridge: Blocking[Office]) -> None:
        self.id = handle.id
        self.duplicate = handle.duplicate
        self.changed = handle.changed
        self._handle = handle
        self._bridge = bridge

    def _ask(self, verb: Callable[[Handle[R]], Coroutine[Any, Any, T]]) -> T:
        return self._bridge.run(lambda office: verb(self._handle.at(office)))

    def status(self) -> State:
        return self._ask(lambda handle: handle.status())

    def task(self) -> Task:
        return self._ask(lambda handle: handle.task())

    def cancel(self, *, actor: str = "python") -> Cancellation:
        return self._ask(lambda handle: handle.cancel(actor=actor))

    def pause(self, *, actor: str = "python") -> Pausing:
        return self._ask(lambda handle: handle.pause(actor=actor))

    def resume(self, *, actor: str = "python") -> None:
        self._ask(lambda handle: handle.resume(actor=actor))

    def retry(self, *, actor: str = "python") -> None:
        self._ask(lambda handle: handle.retry(actor=actor))

    def prioritize(self, priority: int, *, actor: str = "python") -> None:
        self._ask(lambda handle: handle.prioritize(priority, actor=actor))

    def explain(self) -> Explanation:
        return self._ask(lambda handle: handle.explain())

    def logs(self, *, after: LogMark | None = None, limit: int = PAGE_LINES) -> list[LogLine]:
        return self._ask(lambda handle: handle.logs(after=after, limit=limit))

    def result(self, timeout: float | None = None) -> R:
        """Wait for the task to end: its result, or TaskFailed, TaskCancelled, ResultTimeout."""
        return self._ask(lambda handle: handle.result(timeout))

    def __repr__(self) -> str:
        return f"SyncHandle({self.id!r})"
