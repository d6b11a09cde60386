"""Gives all tasks away, or takes them over, as they are."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.clock import micros
from taskyard.domain.lane import Audited, KeyRule, Lane
from taskyard.domain.moved import Moved
from taskyard.domain.task import Task, TaskQuery, Until
from taskyard.store.sqlite.enqueue import lane_number, route_number
from taskyard.store.sqlite.read import list_tasks
from taskyard.store.sqlite.tx import Tx, numbers, to_json


def export(tx: Tx, after: int | None, limit: int) -> list[Moved]:
    tasks = list_tasks(tx, TaskQuery(after=after, limit=limit))
    asked = numbers(task.no for task in tasks)
    rows = tx.rows(list[tuple[int, Until | None, bool]], tx.sql("copy")["dedup"], asked)
    dedup = {no: (until, kept) for no, until, kept in rows}
    return [Moved(task, *dedup[task.no]) for task in tasks]


def import_tasks(tx: Tx, moved: Sequence[Moved]) -> None:
    if not moved:
        return
    sql = tx.sql("copy")
    tasks = [one.task for one in moved]
    tx.run(sql["tasks"], to_json([_row(tx, one) for one in moved]))
    tx.run(sql["payloads"], to_json([(task.no, task.payload) for task in tasks]))
    results = [(task.no, task.result) for task in tasks if task.result is not None]
    tx.run(sql["results"], to_json(results))
    progress = [(task.no, to_json(task.progress)) for task in tasks if task.progress]
    tx.run(sql["progress"], to_json(progress))
    tx.run(sql["failures"], to_json([row for task in tasks for row in _failures(task)]))
    tx.run(sql["keys"], to_json([(task.no, key) for task in tasks for key in task.keys]))
    tx.run(sql["numbers"], max(max(task.no, task.seq) for task in tasks))


def import_settings(
    tx: Tx, lanes: Sequence[Lane], rules: Sequence[KeyRule], audit: Sequence[Audited]
) -> None:
    sql = tx.sql("copy")
    for lane in lanes:
        lane_number(tx, lane.name)
    rows = [(n.name, n.capacity, int(n.paused), n.paused_reason, n.order) for n in lanes]
    tx.run(sql["lanes"], to_json(rows))
    tx.run(sql["rules"], to_json([(rule.pattern, rule.limit) for rule in rules]))
    tx.run(
        sql["audit"], to_json([(a.no, a.at, a.actor, a.action, a.subject, a.detail) for a in audit])
    )


def _row(tx: Tx, moved: Moved) -> tuple[object, ...]:
    """In the order of tasks in sql/copy.sql."""
    task = moved.task
    return (
        task.no,
        task.id,
        lane_number(tx, task.lane),
        route_number(tx, task.kind, task.requires),
        task.priority,
        task.seq,
        task.state,
        task.reason,
        task.attempt,
        task.charged,
        task.max_charged,
        task.losses,
        to_json(task.keys) if task.keys else None,
        task.group or None,
        task.dedup,
        moved.dedup_until,
        None if task.dedup is None else int(moved.dedup_kept),
        micros(task.timeout),
        task.deadline,
        task.created_at,
        task.run_at,
        task.started_at,
        task.ended_at,
        task.node,
    )


def _failures(task: Task) -> list[tuple[object, ...]]:
    return [
        (
            *(task.no, failure.attempt, failure.reason, failure.at, failure.started_at),
            failure.node,
            *((e.type, e.message, e.stack) if (e := failure.error) else (None, None, None)),
        )
        for failure in task.failures
    ]
