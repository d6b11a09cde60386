"""What operators do: the functions answer the state they found, here it becomes an error."""

from __future__ import annotations

from taskyard.domain.errors import IllegalTransition, InvalidOption, NotFound
from taskyard.domain.state import Reason, State, require, require_revivable
from taskyard.domain.task import check_priority
from taskyard.store.port import Cancellation, Pausing
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


async def pause(database: Database, clock: int, task_id: str, actor: str) -> Pausing:
    answer = await database.value("SELECT taskyard.pause($1, $2, $3)", clock, task_id, actor)
    before = _found(task_id, answer)
    require(task_id, before, State.PAUSED, Reason.OPERATOR)
    return Pausing.ASKED if before is State.RUNNING else Pausing.DONE


async def resume(database: Database, clock: int, task_id: str, actor: str) -> None:
    row = await database.row("SELECT * FROM taskyard.resume($1, $2, $3)", clock, task_id, actor)
    before = _found(task_id, row["o_state"])
    if not row["o_done"]:
        require(task_id, before, State.PENDING, Reason.OPERATOR)


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
    statement = "SELECT * FROM taskyard.prioritize($1, $2, $3, $4)"
    row = await database.row(statement, clock, task_id, priority, actor)
    before = _found(task_id, row["o_state"])
    if before not in (State.PENDING, State.QUEUED, State.PAUSED):
        raise IllegalTransition(
            f"task {task_id} is {before} and waits for nothing: its priority cannot change"
        )
    if row["o_fifo"] is not None:
        raise InvalidOption(
            f"lane {row['o_fifo']} is first in, first out: its tasks keep the order they came in"
        )
