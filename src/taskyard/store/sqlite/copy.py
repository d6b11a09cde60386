"""Gives all tasks away, or takes them over, as they are."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.clock import micros
from taskyard.domain.cron import CronEntry
from taskyard.domain.lane import Audited, KeyRule, Lane
from taskyard.domain.moved import Bucket, Moved
from taskyard.domain.task import OnFailure, Task, TaskQuery, Until
from taskyard.store.sqlite import keys, rates
from taskyard.store.sqlite.names import lane_number, route_number
from taskyard.store.sqlite.read import list_tasks
from taskyard.store.sqlite.tx import Tx, numbers, to_json

_More = tuple[int, tuple[Until | None, bool, int, tuple[str, ...]]]


def export(tx: Tx, after: int | None, limit: int) -> list[Moved]:
    tasks, _ = list_tasks(tx, TaskQuery(after=after, limit=limit))
    asked = numbers(task.no for task in tasks)
    more = dict(tx.rows(list[_More], tx.sql("copy")["more"], asked))
    return [Moved(task, *more[task.no]) for task in tasks]


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
    points = [(task.no, task.checkpoint) for task in tasks if task.checkpoint is not None]
    tx.run(sql["checkpoints"], to_json(points))
    traces = [(task.no, task.trace) for task in tasks if task.trace is not None]
    tx.run(sql["traces"], to_json(traces))
    _import_dependencies(tx, moved)
    tx.run(sql["failures"], to_json([row for task in tasks for row in _failures(task)]))
    tx.run(sql["keys"], to_json([(task.no, key) for task in tasks for key in task.keys]))
    tx.run(sql["numbers"], max(max(task.no, task.seq) for task in tasks))


def _import_dependencies(tx: Tx, moved: Sequence[Moved]) -> None:
    edges = [
        (one.task.no, place, other, int(other in unmet))
        for one in moved
        for unmet in [frozenset(one.unmet)]
        for place, other in enumerate(one.task.depends_on)
    ]
    if edges:
        tx.run(tx.sql("copy")["dependencies"], to_json(edges))
        tx.run(tx.sql("dependencies")["await"], to_json(sorted({edge[2] for edge in edges})))


def import_settings(
    tx: Tx,
    lanes: Sequence[Lane],
    rules: Sequence[KeyRule],
    audit: Sequence[Audited],
    crons: Sequence[CronEntry],
    *,
    buckets: Sequence[Bucket],
) -> None:
    sql = tx.sql("copy")
    for lane in lanes:
        lane_number(tx, lane.name)
    tx.run(sql["lanes"], to_json([_lane_row(lane) for lane in lanes]))
    tx.run(sql["rules"], to_json([(rule.pattern, rule.limit, rule.rate) for rule in rules]))
    tx.run(sql["crons"], to_json([(c.cron.name, c.cron, c.next_at, c.last_at) for c in crons]))
    tx.run(
        sql["audit"], to_json([(a.no, a.at, a.actor, a.action, a.subject, a.detail) for a in audit])
    )
    _import_buckets(tx, buckets)


def buckets(tx: Tx) -> list[Bucket]:
    return tx.rows(list[Bucket], tx.sql("copy")["buckets"], tx.now)


def _import_buckets(tx: Tx, given: Sequence[Bucket]) -> None:
    ruled = keys.rules(tx)
    of_keys = {bucket.name: bucket.full_at for bucket in given if not bucket.of_lane}
    rates.take_over(tx, of_keys, {key: rate for key in of_keys if (rate := ruled.rate(key))})
    for bucket in given:
        if bucket.of_lane:
            rates.take_over_lane(tx, lane_number(tx, bucket.name), bucket.full_at)


def _lane_row(lane: Lane) -> tuple[object, ...]:
    """In the order of lanes in sql/copy.sql."""
    paused = (int(lane.paused), lane.paused_reason, lane.paused_until)
    return (lane.name, lane.capacity, *paused, lane.order, lane.ageing, lane.max_depth, lane.rate)


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
        moved.rank,
        task.waits_for,
        None if task.on_failure is OnFailure.CANCEL else task.on_failure,
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
