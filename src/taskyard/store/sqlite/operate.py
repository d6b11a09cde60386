"""What operators do: cancel, retry, prioritize, lanes."""

from __future__ import annotations

import msgspec

from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.domain.lane import LaneChange
from taskyard.domain.state import Reason, State, require, require_revivable
from taskyard.domain.task import check_priority
from taskyard.store.port import Cancellation
from taskyard.store.sqlite import keys
from taskyard.store.sqlite.enqueue import lane_number
from taskyard.store.sqlite.tx import Tx


class _Look(msgspec.Struct):
    no: int
    state: State
    attempt: int
    priority: int
    keys: tuple[str, ...]
    dedup: str | None
    parked: bool


def _look(tx: Tx, task_id: str) -> _Look:
    found = tx.value(tx.sql("operate")["look"], task_id)
    if found is None:
        raise NotFound(f"there is no task {task_id}")
    return msgspec.json.decode(found, type=_Look)


def cancel(tx: Tx, task_id: str, actor: str) -> Cancellation:
    task = _look(tx, task_id)
    sql = tx.sql("operate")
    require(task_id, task.state, State.CANCELLED, Reason.OPERATOR)
    if task.state is State.RUNNING:
        tx.run(sql["ask"], task.no, "cancel")
        answer = Cancellation.ASKED
    else:
        tx.run(sql["cancel"], task.no, tx.now)
        keys.passed_over(tx, [task.keys])
        answer = Cancellation.DONE
    tx.audit(actor, [("cancel", f"task:{task_id}", answer)])
    return answer


def retry(tx: Tx, task_id: str, actor: str) -> None:
    task = _look(tx, task_id)
    sql = tx.sql("operate")
    require_revivable(task_id, task.state)
    if task.dedup is not None:
        kept_by = tx.value(sql["kept_by"], task.dedup)
        if kept_by is not None:
            raise IllegalTransition(
                f"task {task_id} cannot be retried: task {kept_by} keeps its dedup key now"
            )
    seq = tx.value(tx.sql("enqueue")["numbers"], 1)
    tx.run(sql["revive"], task.no, seq, tx.now)
    tx.run(sql["drop_result"], task.no)
    tx.audit(actor, [("retry", f"task:{task_id}", f"was {task.state}")])


def prioritize(tx: Tx, task_id: str, priority: int, actor: str) -> None:
    check_priority(priority)
    task = _look(tx, task_id)
    if task.state not in (State.PENDING, State.QUEUED, State.PAUSED):
        raise IllegalTransition(
            f"task {task_id} is {task.state} and waits for nothing: its priority cannot change"
        )
    tx.run(tx.sql("operate")["prioritize"], task.no, priority)
    keys.passed_over(tx, [task.keys])
    tx.audit(actor, [("prioritize", f"task:{task_id}", f"{task.priority} to {priority}")])


def set_lane(tx: Tx, name: str, change: LaneChange, actor: str) -> None:
    change.check()
    lane_number(tx, name)
    sql = tx.sql("operate")
    entries: list[tuple[str, str, str]] = []
    if change.capacity is not msgspec.UNSET:
        tx.run(sql["set_capacity"], name, change.capacity)
        entries.append(("set_capacity", f"lane:{name}", str(change.capacity)))
    if change.paused is not msgspec.UNSET:
        tx.run(sql["set_paused"], name, int(change.paused), change.paused_reason)
        action = "pause" if change.paused else "resume"
        entries.append((action, f"lane:{name}", change.paused_reason or ""))
    tx.audit(actor, entries)


def pause_yard(tx: Tx, paused: bool, actor: str) -> None:
    tx.run(tx.sql("operate")["pause_yard"], int(paused))
    tx.audit(actor, [("pause" if paused else "resume", "yard", "")])
