"""Saves tasks that differ in nothing but their ids and payloads: most calls are of such tasks."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import apsw

from taskyard.domain.clock import micros
from taskyard.domain.state import State
from taskyard.domain.task import NewTask, OnFailure
from taskyard.store.sqlite.names import lane_number, route_number
from taskyard.store.sqlite.newcomer import run_at_of
from taskyard.store.sqlite.tx import Tx, to_json

# Below this, a statement for each group takes longer than one for all.
LEAST_OF_A_GROUP = 4

_bond = attrgetter("keys", "dedup", "depends_on", "refuse_if_held", "on_failure")
_NONE = ((), None, (), False, OnFailure.CANCEL)
_form = attrgetter(
    *("kind", "requires", "lane", "priority", "group", "max_charged", "timeout"),
    *("run_at", "delay", "deadline"),
)

Groups = Sequence[dict[int, NewTask]]


def grouped(tasks: Sequence[NewTask], first: int) -> Groups | None:
    """These tasks by their numbers; None: some have to do with others, or too few are alike."""
    if not all(map(_NONE.__eq__, map(_bond, tasks))):
        return None
    if len(tasks) == 1:
        return [{first: tasks[0]}]
    groups: dict[object, dict[int, NewTask]] = {}
    for no, (form, task) in enumerate(zip(map(_form, tasks), tasks, strict=True), first):
        groups.setdefault(form, {})[no] = task
    if len(groups) > 1 and len(groups) * LEAST_OF_A_GROUP > len(tasks):
        return None
    if len(groups) > 1 and len({task.id for task in tasks}) < len(tasks):
        return None  # of two with one id the first counts, whichever group is saved first
    return list(groups.values())


def save(tx: Tx, groups: Groups) -> int:
    """Those whose id is free; says how many they are."""
    return sum(_save(tx, group) for group in groups)


def _save(tx: Tx, group: dict[int, NewTask]) -> int:
    sql = tx.sql("enqueue")
    if len(group) == 1:
        [(no, one)] = group.items()
        saved = tx.run(sql["insert_one"], no, *_common(tx, one), one.id)
        if saved:
            tx.run(sql["payload_one"], no, one.payload)
        return saved
    ids = to_json({no: task.id for no, task in group.items()})
    saved = tx.run(sql["insert_alike"], ids, *_common(tx, next(iter(group.values()))))
    tx.run(sql["payloads_alike"], to_json({no: task.payload for no, task in group.items()}))
    return saved


def _common(tx: Tx, one: NewTask) -> tuple[apsw.SQLiteValue, ...]:
    """What tasks of a group have in common, in the order of insert_alike in sql/enqueue.sql."""
    run_at = run_at_of(tx, one)
    return (
        tx.now,
        lane_number(tx, one.lane),
        route_number(tx, one.kind, one.requires),
        one.priority,
        State.QUEUED if run_at <= tx.now else State.PENDING,
        one.max_charged,
        one.group or None,
        micros(one.timeout),
        one.deadline,
        run_at,
    )
