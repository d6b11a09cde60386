"""A handle on a task that was enqueued."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from taskyard.bridge import Blocking
from taskyard.domain.errors import (
    NotFound,
    ResultMismatch,
    ResultTimeout,
    TaskCancelled,
    TaskFailed,
)
from taskyard.domain.explain import Explanation
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskError
from taskyard.store.port import Cancellation, Ending

R = TypeVar("R")
T = TypeVar("T")


class Office(Protocol):
    """What a handle asks of its yard."""

    async def get(self, task_id: str) -> Task: ...

    async def cancel(self, task_id: str, *, actor: str = ...) -> Cancellation: ...

    async def retry(self, task_id: str, *, actor: str = ...) -> None: ...

    async def prioritize(self, task_id: str, priority: int, *, actor: str = ...) -> None: ...

    async def explain(self, task_id: str) -> Explanation: ...

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None: ...


class Handle(Generic[R]):
    def __init__(
        self,
        task_id: str,
        office: Office,
        decode: Callable[[str | None], Any],
        *,
        duplicate: bool = False,
    ) -> None:
        self.id = task_id
        self.duplicate = duplicate  # True: nothing was enqueued, this is the task in its way
        self._office = office
        self._decode = decode

    async def status(self) -> State:
        return (await self.task()).state

    async def task(self) -> Task:
        return await self._office.get(self.id)

    async def cancel(self, *, actor: str = "python") -> Cancellation:
        return await self._office.cancel(self.id, actor=actor)

    async def retry(self, *, actor: str = "python") -> None:
        await self._office.retry(self.id, actor=actor)

    async def prioritize(self, priority: int, *, actor: str = "python") -> None:
        await self._office.prioritize(self.id, priority, actor=actor)

    async def explain(self) -> Explanation:
        return await self._office.explain(self.id)

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the task to end: its result, or TaskFailed, TaskCancelled, ResultTimeout."""
        ending = await self._office.ending(self.id, timeout)
        if ending is None:
            raise ResultTimeout(f"task {self.id} has not ended within {timeout:g} s")
        match ending.state:
            case State.COMPLETED:
                return self._decoded(ending.result)
            case State.CANCELLED:
                raise TaskCancelled(f"task {self.id} was cancelled")
            case State.FAILED:
                raise self._failure(ending.error)
            case _:
                raise NotFound(f"task {self.id} is {ending.state}, which is no ending")

    def _decoded(self, result: str | None) -> R:
        try:
            decoded: R = self._decode(result)
        except msgspec.MsgspecError as error:
            raise ResultMismatch(f"the result of task {self.id}: {error}") from None
        return decoded

    def _failure(self, error: TaskError | None) -> TaskFailed:
        if error is None:
            return TaskFailed(f"task {self.id} failed: it did not start in time", task_id=self.id)
        return TaskFailed(
            f"task {self.id} failed: {error.type}: {error.message}",
            task_id=self.id,
            error_type=error.type,
            stack=error.stack,
        )

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"


class SyncHandle(Generic[R]):
    """The same for callers that block."""

    def __init__(
        self,
        task_id: str,
        bridge: Blocking[Office],
        decode: Callable[[str | None], Any],
        *,
        duplicate: bool = False,
    ) -> None:
        self.id = task_id
        self.duplicate = duplicate
        self._bridge = bridge
        self._decode = decode

    def _ask(self, verb: Callable[[Handle[R]], Coroutine[Any, Any, T]]) -> T:
        return self._bridge.run(lambda office: verb(Handle(self.id, office, self._decode)))

    def status(self) -> State:
        return self._ask(lambda handle: handle.status())

    def task(self) -> Task:
        return self._ask(lambda handle: handle.task())

    def cancel(self, *, actor: str = "python") -> Cancellation:
        return self._ask(lambda handle: handle.cancel(actor=actor))

    def retry(self, *, actor: str = "python") -> None:
        self._ask(lambda handle: handle.retry(actor=actor))

    def prioritize(self, priority: int, *, actor: str = "python") -> None:
        self._ask(lambda handle: handle.prioritize(priority, actor=actor))

    def explain(self) -> Explanation:
        return self._ask(lambda handle: handle.explain())

    def result(self, timeout: float | None = None) -> R:
        """Wait for the task to end: its result, or TaskFailed, TaskCancelled, ResultTimeout."""
        return self._ask(lambda handle: handle.result(timeout))

    def __repr__(self) -> str:
        return f"SyncHandle({self.id!r})"


def plain(result: str | None) -> Any:
    """A result whose type nobody knows."""
    return None if result is None else msgspec.json.decode(result)
