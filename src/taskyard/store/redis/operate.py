"""What operators do to tasks: the scripts answer what they found, here it becomes an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.domain.lane import LaneChange
from taskyard.domain.state import (
    REVIVABLE,
    WAITING,
    Reason,
    State,
    allows,
    require,
    require_revivable,
)
from taskyard.domain.task import check_priority
from taskyard.store.port import Cancellation

Write = Callable[..., Awaitable[Any]]

_MAY_BE_CANCELLED = [s for s in State if allows(s, State.CANCELLED, Reason.OPERATOR)]
_MAY_BE_RETRIED = sorted(REVIVABLE)
_WAIT = sorted(WAITING)


async def cancel(write: Write, task_id: str, actor: str) -> Cancellation:
    found, *answer = await write("cancel", task_id, actor, _MAY_BE_CANCELLED)
    _require_found(task_id, found)
    done, before = answer
    require(task_id, State(before.decode()), State.CANCELLED, Reason.OPERATOR)
    return Cancellation(done.decode())


async def retry(write: Write, task_id: str, actor: str) -> None:
    found, *answer = await write("retry", task_id, actor, _MAY_BE_RETRIED)
    _require_found(task_id, found)
    before, keeper = answer
    require_revivable(task_id, State(before.decode()))
    if keeper:
        raise IllegalTransition(
            f"task {task_id} cannot be retried: task {keeper.decode()} keeps its dedup key now"
        )


async def prioritize(write: Write, task_id: str, priority: int, actor: str) -> None:
    check_priority(priority)
    found, *answer = await write("prioritize", task_id, priority, actor, _WAIT)
    _require_found(task_id, found)
    state, waits = answer
    if not waits:
        raise IllegalTransition(
            f"task {task_id} is {state.decode()} and waits for nothing: its priority cannot change"
        )


def lane_change(name: str, change: LaneChange, actor: str) -> tuple[object, ...]:
    """As lua/set_lane.lua takes it: '' for what stays."""
    change.check()
    capacity = "" if change.capacity is msgspec.UNSET else change.capacity
    paused = "" if change.paused is msgspec.UNSET else change.paused
    return name, actor, capacity, paused, change.paused_reason


def _require_found(task_id: str, found: int) -> None:
    if not found:
        raise NotFound(f"there is no task {task_id}")
