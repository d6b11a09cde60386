"""Saves new tasks."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from taskyard.domain.errors import StaleAttempt
from taskyard.domain.lane import Order
from taskyard.domain.node import Hold
from taskyard.domain.state import State
from taskyard.domain.task import Clash, Duplicate, Enqueue, Enqueued, NewTask, OnFailure
from taskyard.store.sqlite import alike, intake, keys
from taskyard.store.sqlite.names import lane_number
from taskyard.store.sqlite.newcomer import Newcomer, Newcomers, run_at_of, save_traces
from taskyard.store.sqlite.order import Places
from taskyard.store.sqlite.tx import Tx, numbers, to_json

_trace = attrgetter("trace")


def enqueue(tx: Tx, tasks: Sequence[NewTask], by: Hold | None = None) -> list[Enqueue]:
    sql = tx.sql("enqueue")
    if by is not None and tx.value(sql["accepted"], by.no, by.attempt, by.lease) is None:
        raise StaleAttempt(
            f"attempt {by.attempt} is no longer the accepted one of its task: nothing was enqueued"
        )
    if not tasks:
        return []
    last, particular = tx.row(sql["begin"], len(tasks))
    first: int = last - len(tasks) + 1
    groups = None if particular else alike.grouped(tasks, first)
    if groups is not None:
        return _answers(tx, tasks, first, alike.save(tx, groups))
    places = Places(tx, particular=bool(particular))
    if any(map(_hangs_on_others, tasks)) or _is_choosy(tx, tasks, places):
        return _decide_each(tx, tasks, first, places)
    return _save_all(tx, tasks, first, places)


def _hangs_on_others(task: NewTask) -> bool:
    """Whether what becomes of it hangs on more than that its id and its dedup key are free."""
    if task.depends_on or task.refuse_if_held or task.on_failure is not OnFailure.CANCEL:
        return True
    return task.dedup is not None and task.dedup.clash is not Clash.KEEP


def _is_choosy(tx: Tx, tasks: Sequence[NewTask], places: Places) -> bool:
    """Whether one of their lanes must know which of them are new, to place or to count them."""
    if not places.lanes:
        return False
    lanes = (places.lanes.get(lane_number(tx, name)) for name in {task.lane for task in tasks})
    return any(
        lane is not None and (lane.order is Order.FAIR or lane.max_depth is not None)
        for lane in lanes
    )


def _decide_each(tx: Tx, tasks: Sequence[NewTask], first: int, places: Places) -> list[Enqueue]:
    decisions = intake.Intake(tx, tasks, places)
    answers = [decisions.decide(no, task) for no, task in enumerate(tasks, first)]
    _save(tx, "insert_particular", decisions.saved)
    _save_traces(tx, tasks, first)
    decisions.settle()
    return answers


def _save_all(tx: Tx, tasks: Sequence[NewTask], first: int, places: Places) -> list[Enqueue]:
    """Let the indexes find out which of these are here already."""
    newcomers = Newcomers(tx, places, keys.full(tx, (key for t in tasks for key in t.keys)))
    make = newcomers.particular if places.lanes else newcomers.plain
    rows: list[Newcomer] = []
    for no, task in enumerate(tasks, first):
        run_at = run_at_of(tx, task)
        state = State.QUEUED if run_at <= tx.now else State.PENDING
        rows.append(make(no, task, state, run_at))
    saved = _save(tx, "insert_particular" if places.lanes else "insert", rows)
    return _answers(tx, tasks, first, saved)


def _answers(tx: Tx, tasks: Sequence[NewTask], first: int, saved: int) -> list[Enqueue]:
    _save_traces(tx, tasks, first)
    if saved == len(tasks):
        return [Enqueued(task.id) for task in tasks]
    asked = [(no, t.id, t.dedup and t.dedup.key) for no, t in enumerate(tasks, first)]
    clashes = dict(tx.rows(list[tuple[int, str]], tx.sql("enqueue")["clashes"], to_json(asked)))
    return [
        Duplicate(clashes[no]) if no in clashes else Enqueued(task.id)
        for no, task in enumerate(tasks, first)
    ]


def _save_traces(tx: Tx, tasks: Sequence[NewTask], first: int) -> None:
    if any(map(_trace, tasks)):
        save_traces(tx, {no: t.trace for no, t in enumerate(tasks, first) if t.trace is not None})


def _save(tx: Tx, insert: str, rows: Sequence[Newcomer]) -> int:
    """Those whose id and dedup key are free; says how many they are."""
    sql = tx.sql("enqueue")
    batch = to_json(rows)
    saved = tx.run(sql[insert], batch, tx.now)
    tx.run(sql["payloads"], batch)
    keyed = [row.no for row in rows if row.keys]
    if keyed:
        tx.run(sql["keys"], numbers(keyed))
    return saved
