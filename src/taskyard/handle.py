"""A handle on a task that was enqueued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from taskyard.domain.errors import NotFound, ResultTimeout, TaskCancelled, TaskFailed
from taskyard.domain.explain import Explanation
from taskyard.domain.state import State
from taskyard.domain.task import Task
from taskyard.store.port import Cancellation, Ending

R = TypeVar("R")


class Office(Protocol):
    """What a handle asks of its yard."""

    async def get(self, task_id: str) -> Task: ...

    async def cancel(self, task_id: str, *, actor: str = ...) -> Cancellation: ...

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

    async def explain(self) -> Explanation:
        return await self._office.explain(self.id)

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the task to end: its result, or TaskFailed, TaskCancelled, ResultTimeout."""
        ending = await self._office.ending(self.id, timeout)
        if ending is None:
            raise ResultTimeout(f"task {self.id} has not ended within {timeout:g} s")
        match ending.state:
            case State.COMPLETED:
                result: R = self._decode(ending.result)
                return result
            case State.CANCELLED:
                raise TaskCancelled(f"task {self.id} was cancelled")
            case State.FAILED:
                error = ending.error
                why = f"{error.type}: {error.message}" if error else "it did not start in time"
                raise TaskFailed(f"task {self.id} failed: {why}")
            case _:
                raise NotFound(f"task {self.id} is {ending.state}, which is no ending")

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"
