"""What became of the tasks that another one depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from taskyard.domain.errors import (
    NotFound,
    ResultMismatch,
    TaskCancelled,
    TaskFailed,
)
from taskyard.domain.state import State
from taskyard.domain.task import TaskError
from taskyard.store.port import Ending, Store

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Returns(Protocol[R_co]):
    """A declared task: it knows what its results are."""

    def decode_result(self, result: str | None) -> R_co: ...


async def dependencies(store: Store, task_id: str) -> list[Ending]:
    """In the order in which the task names them; one that has not ended comes with its state.

    That is so only if somebody had a cancelled task tried again, which waits for nothing.
    """
    task = await store.get(task_id)
    if task is None or not task.depends_on:
        return []
    ended = {ending.id: ending for ending in await store.endings(task.depends_on)}
    found = [ended.get(one) or await _not_ended(store, one) for one in task.depends_on]
    return [ending for ending in found if ending is not None]


async def _not_ended(store: Store, task_id: str) -> Ending | None:
    task = await store.get(task_id)
    return None if task is None else Ending(task_id, task.state)


def result_of(ending: Ending, decode: Callable[[str | None], R]) -> R:
    """What a task has returned; raises TaskFailed or TaskCancelled if it has not."""
    match ending.state:
        case State.COMPLETED:
            try:
                return decode(ending.result)
            except msgspec.MsgspecError as error:
                raise ResultMismatch(f"the result of task {ending.id}: {error}") from None
        case State.CANCELLED:
            raise TaskCancelled(f"task {ending.id} was cancelled")
        case State.FAILED:
            raise _failure(ending.id, ending.error)
        case _:
            raise NotFound(f"task {ending.id} is {ending.state}, which is no ending")


def _failure(task_id: str, error: TaskError | None) -> TaskFailed:
    if error is None:
        return TaskFailed(f"task {task_id} failed: it did not start in time", task_id=task_id)
    return TaskFailed(
        f"task {task_id} failed: {error.type}: {error.message}",
        task_id=task_id,
        error_type=error.type,
        stack=error.stack,
    )


def plain(result: str | None) -> Any:
    """A result whose type nobody knows."""
    return None if result is None else msgspec.json.decode(result)
