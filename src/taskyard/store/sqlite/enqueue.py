"""Saves new tasks."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.errors import StaleAttempt
from taskyard.domain.lane import Order
from taskyard.domain.node import Hold
from taskyard.domain.state import State
from taskyard.domain.task import Clash, Duplicate, Enqueue, Enqueued, NewTask
from taskyard.store.sqlite import intake, keys
from taskyard.store.sqlite.names import lane_number
from taskyard.store.sqlite.newcomer import Newcomer, Newcomers, run_at_of
from taskyard.store.sqlite.order import Places
from taskyard.store.sqlite.tx import Tx, numbers, to_json


def enqueue(tx: Tx, tasks: Sequence[NewTask], by: Hold | None = None) -> list[Enqueue]:
    sql = tx.sql("enqueue")
    if by is not None and tx.value(sql["accepted"], by.no, by.attempt, by.lease) is None:
        raise StaleAttempt(
            f"attempt {by.attempt} is no longer the accepted one of its task: nothing was enqueued"
        )
    if not tasks:
        return []
    first = tx.value(sql["numbers"], len(tasks)) - len(tasks) + 1
    places = Places(tx)
    if any(_needs_a_decision(tx, task, places) for task in tasks):
        decisions = intake.Intake(tx, tasks, places)
        answers = [decisions.decide(no, task) for no, task in enumerate(tasks, first)]
        save(tx, decisions.saved)
        decisions.settle()
        return answers
    return _save_all(tx, tasks, first, places)


def _needs_a_decision(tx: Tx, task: NewTask, places: Places) -> bool:
    """Whether what becomes of it hangs on more than that its id and its dedup key are free."""
    if task.depends_on or task.refuse_if_held:
        return True
    if task.dedup is not None and task.dedup.clash is not Clash.KEEP:
        return True
    lane = places.lanes.get(lane_number(tx, task.lane)) if places.lanes else None
    return lane is not None and (lane.order is Order.FAIR or lane.max_depth is not None)


def _save_all(tx: Tx, tasks: Sequence[NewTask], first: int, places: Places) -> list[Enqueue]:
    """Let the indexes find out which of these are here already."""
    newcomers = Newcomers(tx, places, keys.full(tx, (key for t in tasks for key in t.keys)))
    rows: list[Newcomer] = []
    for no, task in enumerate(tasks, first):
        run_at = run_at_of(tx, task)
        state = State.QUEUED if run_at <= tx.now else State.PENDING
        rows.append(newcomers.row(no, task, state, run_at))
    if save(tx, rows) == len(tasks):
        return [Enqueued(task.id) for task in tasks]
    clashes = dict(tx.rows(list[tuple[int, str]], tx.sql("enqueue")["clashes"], to_json(rows)))
    return [
        Duplicate(clashes[no]) if no in clashes else Enqueued(task.id)
        for no, task in enumerate(tasks, first)
    ]


def save(tx: Tx, rows: Sequence[Newcomer]) -> int:
    """Those whose id and dedup key are free; says how many they are."""
    sql = tx.sql("enqueue")
    batch = to_json(rows)
    saved = tx.run(sql["insert"], batch, tx.now)
    tx.run(sql["payloads"], batch)
    keyed = [row.no for row in rows if row.keys]
    if keyed:
        tx.run(sql["keys"], numbers(keyed))
    return saved
