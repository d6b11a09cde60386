"""Saves new tasks."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.clock import micros
from taskyard.domain.errors import StaleAttempt
from taskyard.domain.node import Hold
from taskyard.domain.state import State
from taskyard.domain.task import Duplicate, Enqueue, Enqueued, NewTask
from taskyard.store.sqlite import keys
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
    rows = _rows(tx, tasks, first)
    batch = to_json(rows)
    saved = tx.run(sql["insert"], batch, tx.now)
    tx.run(sql["payloads"], batch)
    keyed = [first + at for at, task in enumerate(tasks) if task.keys]
    if keyed:
        tx.run(sql["keys"], numbers(keyed))
    if saved == len(tasks):
        return [Enqueued(task.id) for task in tasks]
    clashes = dict(tx.rows(list[tuple[int, str]], sql["clashes"], batch))
    return [
        Duplicate(clashes[first + at]) if first + at in clashes else Enqueued(task.id)
        for at, task in enumerate(tasks)
    ]


def _rows(tx: Tx, tasks: Sequence[NewTask], first: int) -> list[tuple[object, ...]]:
    """One row a task, in the order of sql/enqueue.sql."""
    full = {
        key
        for key, free in keys.room(tx, (key for task in tasks for key in task.keys)).items()
        if free <= 0
    }
    rows: list[tuple[object, ...]] = []
    for no, task in enumerate(tasks, first):
        run_at = _run_at(tx, task)
        due = run_at <= tx.now
        blocking = next((key for key in task.keys if key in full), None) if due else None
        rows.append(
            (
                no,
                task.id,
                lane_number(tx, task.lane),
                route_number(tx, task.kind, task.requires),
                task.priority,
                State.QUEUED if due else State.PENDING,
                task.max_charged,
                to_json(task.keys) if task.keys else None,
                blocking,
                task.group or None,
                task.dedup.key if task.dedup else None,
                task.dedup.until if task.dedup else None,
                micros(task.timeout),
                task.deadline,
                run_at,
                task.payload,
            )
        )
    return rows


def _run_at(tx: Tx, task: NewTask) -> int:
    if task.delay is not None:
        return tx.now + micros(task.delay)
    return tx.now if task.run_at is None else task.run_at


def lane_number(tx: Tx, name: str) -> int:
    """The lane's number; a lane exists from the first time it is named."""
    number = tx.names.lanes.get(name)
    if number is None:
        sql = tx.sql("enqueue")
        number = tx.value(sql["find_lane"], name) or tx.value(sql["make_lane"], name)
        assert isinstance(number, int)
        tx.names.lanes[name] = number
    return number


def route_number(tx: Tx, kind: str, requires: tuple[str, ...]) -> int:
    """The route's number; a new route is offered to the nodes that can serve it."""
    route = (kind, requires)
    number = tx.names.routes.get(route)
    if number is None:
        sql = tx.sql("enqueue")
        needs = to_json(sorted(requires))
        number = tx.value(sql["find_route"], kind, needs)
        if number is None:
            number = tx.value(sql["make_route"], kind, needs)
            tx.run(sql["offer_route"], number)
        assert isinstance(number, int)
        tx.names.routes[route] = number
    return number
