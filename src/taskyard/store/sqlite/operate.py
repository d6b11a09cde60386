"""What operators do to a task: cancel, retry, prioritize."""

from __future__ import annotations

import msgspec

from taskyard.domain.clock import Instant, micros
from taskyard.domain.errors import IllegalTransition, InvalidOption, NotFound
from taskyard.domain.lane import Order
from taskyard.domain.state import WAITING, Reason, State, require, require_revivable
from taskyard.domain.task import check_priority
from taskyard.store.port import Cancellation
from taskyard.store.sqlite import dependencies, keys, order
from taskyard.store.sqlite.tx import Tx
from taskyard.store.sqlite.unreadable import UNREADABLE, told


class Looked(msgspec.Struct):
    """What a verb needs to know of a task."""

    no: int
    lane: str
    order: Order
    ageing: float | None
    state: State
    priority: int
    rank: int
    keys: tuple[str, ...]
    dedup: str | None
    asked: str | None
    run_at: Instant
    waits_for: int
    awaited: bool


def look(tx: Tx, task_id: str) -> Looked:
    try:
        found = _look(tx, task_id)
    except UNREADABLE as error:
        raise told(task_id, error) from error
    if found is None:
        raise NotFound(f"there is no task {task_id}")
    return found


def _look(tx: Tx, task_id: str) -> Looked | None:
    found = tx.value(tx.sql("operate")["look"], task_id)
    return None if found is None else msgspec.json.decode(found, type=Looked)


def queue(tx: Tx, task_id: str, no: int, reason: Reason) -> None:
    for error in order.queue(tx, [no], reason).values():
        raise told(task_id, error) from error


def by_hand(actor: str) -> Reason:
    return Reason.SYSTEM if actor == "system" else Reason.OPERATOR


def cancel(tx: Tx, task_id: str, actor: str) -> Cancellation:
    task, reason = look(tx, task_id), by_hand(actor)
    sql = tx.sql("operate")
    require(task_id, task.state, State.CANCELLED, reason)
    if task.state is State.RUNNING:
        tx.run(sql["ask"], task.no, "cancel")
        answer = Cancellation.ASKED
    else:
        tx.run(sql["cancel"], task.no, tx.now, reason)
        keys.passed_over(tx, [task.keys])
        answer = Cancellation.DONE
    tx.audit(actor, [("cancel", f"task:{task_id}", answer)])
    if answer is Cancellation.DONE and task.awaited:
        dependencies.ended(tx, [(task_id, State.CANCELLED)])
    return answer


def retry(tx: Tx, task_id: str, actor: str) -> None:
    task = look(tx, task_id)
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
    queue(tx, task_id, task.no, Reason.OPERATOR)
    tx.audit(actor, [("retry", f"task:{task_id}", f"was {task.state}")])


def prioritize(tx: Tx, task_id: str, priority: int, actor: str) -> None:
    check_priority(priority)
    task = look(tx, task_id)
    if task.state not in WAITING:
        raise IllegalTransition(
            f"task {task_id} is {task.state} and waits for nothing: its priority cannot change"
        )
    tx.run(tx.sql("operate")["prioritize"], task.no, priority, _rank(task, priority))
    keys.passed_over(tx, [task.keys])
    tx.audit(actor, [("prioritize", f"task:{task_id}", f"{task.priority} to {priority}")])


def _rank(task: Looked, priority: int) -> int:
    """Its place with another priority; in a fair lane that changes inside its group alone."""
    match task.order:
        case Order.FIFO:
            raise InvalidOption(
                f"lane {task.lane} is first in, first out: its tasks keep the order they came in"
            )
        case Order.FAIR:
            return task.rank
        case Order.PRIORITY if task.ageing is not None:
            return task.rank + (priority - task.priority) * micros(task.ageing)
        case Order.PRIORITY:
            return priority
