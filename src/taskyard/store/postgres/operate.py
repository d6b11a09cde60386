"""What operators do: the functions answer the state they found, here it becomes an error."""

from __future__ import annotations

import msgspec

from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.domain.lane import KeyRule, LaneChange
from taskyard.domain.state import Reason, State, require, require_revivable
from taskyard.domain.task import check_priority
from taskyard.store.port import Cancellation
from taskyard.store.postgres.connection import Database


def _found(task_id: str, state: str | None) -> State:
    if state is None:
        raise NotFound(f"there is no task {task_id}")
    return State(state)


async def cancel(database: Database, clock: int, task_id: str, actor: str) -> Cancellation:
    answer = await database.value("SELECT taskyard.cancel($1, $2, $3)", clock, task_id, actor)
    before = _found(task_id, answer)
    require(task_id, before, State.CANCELLED, Reason.OPERATOR)
    return Cancellation.ASKED if before is State.RUNNING else Cancellation.DONE


async def retry(database: Database, clock: int, task_id: str, actor: str) -> None:
    row = await database.row("SELECT * FROM taskyard.retry($1, $2, $3)", clock, task_id, actor)
    require_revivable(task_id, _found(task_id, row["o_state"]))
    if row["o_kept_by"] is not None:
        raise IllegalTransition(
            f"task {task_id} cannot be retried: task {row['o_kept_by']} keeps its dedup key now"
        )


async def prioritize(
    database: Database, clock: int, task_id: str, priority: int, actor: str
) -> None:
    check_priority(priority)
    statement = "SELECT taskyard.prioritize($1, $2, $3, $4)"
    before = _found(task_id, await database.value(statement, clock, task_id, priority, actor))
    if before not in (State.PENDING, State.QUEUED, State.PAUSED):
        raise IllegalTransition(
            f"task {task_id} is {before} and waits for nothing: its priority cannot change"
        )


async def set_lane(
    database: Database, clock: int, name: str, change: LaneChange, actor: str
) -> None:
    change.check()
    capacity, paused = change.capacity, change.paused
    await database.value(
        "SELECT taskyard.set_lane($1, $2, $3, $4, $5, $6, $7, $8)",
        clock,
        name,
        capacity is not msgspec.UNSET,
        None if capacity is msgspec.UNSET else capacity,
        paused is not msgspec.UNSET,
        None if paused is msgspec.UNSET else paused,
        change.paused_reason,
        actor,
    )


async def set_key_rule(
    database: Database, clock: int, pattern: str, limit: int | None, actor: str
) -> None:
    if limit is not None:
        KeyRule(pattern, limit).check()
    statement = "SELECT taskyard.set_key_rule($1, $2, $3, $4)"
    await database.value(statement, clock, pattern, limit, actor)
