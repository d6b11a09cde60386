"""Pausing: of a task, with the checkpoint it goes on from, and of the yard."""

from __future__ import annotations

from taskyard.domain.clock import Instant
from taskyard.domain.node import Hold
from taskyard.domain.state import State, require
from taskyard.store.port import Pausing, YardPause
from taskyard.store.sqlite import keys
from taskyard.store.sqlite.operate import by_hand, look, queue
from taskyard.store.sqlite.tx import Tx


def pause(tx: Tx, task_id: str, actor: str) -> Pausing:
    task, reason = look(tx, task_id), by_hand(actor)
    sql = tx.sql("pausing")
    require(task_id, task.state, State.PAUSED, reason)
    if task.state is State.RUNNING:
        tx.run(sql["ask"], task.no)
        answer = Pausing.ASKED
    else:
        tx.run(sql["pause"], task.no, reason)
        keys.passed_over(tx, [task.keys])
        answer = Pausing.DONE
    tx.audit(actor, [("pause", f"task:{task_id}", answer)])
    return answer


def resume(tx: Tx, task_id: str, actor: str) -> None:
    task, reason = look(tx, task_id), by_hand(actor)
    if task.state is State.RUNNING and task.asked == "pause":
        tx.run(tx.sql("pausing")["take_back"], task.no)
    else:
        waits = task.state is not State.PAUSED or task.run_at > tx.now or task.waits_for > 0
        require(task_id, task.state, State.PENDING if waits else State.QUEUED, reason)
        if waits:
            tx.run(tx.sql("pausing")["wait"], task.no, reason)
        else:
            queue(tx, task_id, task.no, reason)
    was = Pausing.ASKED if task.state is State.RUNNING else Pausing.DONE
    tx.audit(actor, [("resume", f"task:{task_id}", was)])


def checkpoint(tx: Tx, hold: Hold, data: str) -> bool:
    kept = tx.run(tx.sql("pausing")["checkpoint"], hold.no, hold.attempt, hold.lease, data)
    return kept > 0


def yard_paused(tx: Tx) -> YardPause | None:
    if not tx.value(tx.sql("read")["yard_paused"], tx.now):
        return None
    return YardPause(tx.value(tx.sql("pausing")["paused_until"]))


def pause_yard(tx: Tx, paused: bool, until: Instant | None, actor: str) -> None:
    tx.run(tx.sql("pausing")["pause_yard"], int(paused), until if paused else None)
    tx.audit(actor, [("pause" if paused else "resume", "yard", "")])
