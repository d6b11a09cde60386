"""Looks at tasks and lanes, and explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from taskyard.domain.clock import seconds
from taskyard.domain.errors import InvalidOption, NotFound
from taskyard.domain.explain import Condition, Explanation, Wait
from taskyard.domain.lane import Audited, Lane
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Ending
from taskyard.store.sqlite import keys
from taskyard.store.sqlite.tx import Tx, numbers, to_json

MAX_PAGE = 1000
FAR_BACK = 10_000


class _Audited(Audited, array_like=True, frozen=True):
    pass


def get(tx: Tx, task_id: str) -> Task | None:
    no = tx.value(tx.sql("read")["number"], task_id)
    return None if no is None else _tasks(tx, [no])[0]


def _tasks(tx: Tx, nos: Sequence[int]) -> list[Task]:
    tasks = tx.rows(list[Task], tx.sql("read")["tasks"], numbers(nos))
    return [_with_error(task) for task in tasks]


def _with_error(task: Task) -> Task:
    """The error of a task that failed is that of its last attempt."""
    if task.state in (State.FAILED, State.PENDING) and task.failures:
        return msgspec.structs.replace(task, error=task.failures[-1].error)
    return task


def list_tasks(tx: Tx, query: TaskQuery) -> list[Task]:
    if not 1 <= query.limit <= MAX_PAGE:
        raise InvalidOption(f"limit must be from 1 to {MAX_PAGE}, not {query.limit}")
    sql = tx.sql("read")
    filters = [
        ("by_state", query.state),
        ("by_kind", query.kind),
        ("by_lane", query.lane),
        ("by_key", query.key),
        ("by_place", query.after),
    ]
    used = [(sql[name], value) for name, value in filters if value is not None]
    conditions = [text for text, _ in used]
    if query.state in TERMINAL:
        conditions.append(sql["by_ended"])  # lets the index of ended tasks be used
    statement = sql["filtered"].format(conditions=" ".join(conditions), limit=query.limit)
    return _tasks(tx, tx.rows(list[int], statement, *(value for _, value in used)))


def endings(tx: Tx, task_ids: Sequence[str]) -> list[Ending]:
    return tx.rows(list[Ending], tx.sql("read")["endings"], to_json(task_ids))


def counts(tx: Tx) -> Mapping[State, int]:
    found = tx.rows(dict[State, int], tx.sql("read")["counts"])
    return {state: found.get(state, 0) for state in State}


def lanes(tx: Tx) -> list[Lane]:
    return tx.rows(list[Lane], tx.sql("read")["lanes"])


def audit(tx: Tx, limit: int, before: int | None) -> list[Audited]:
    rows = tx.rows(list[_Audited], tx.sql("upkeep")["read_audit"], before, limit)
    return list(rows)


class _LaneFacts(msgspec.Struct):
    capacity: int | None
    paused: bool
    reason: str | None
    running: int
    yard_paused: int


def explain(tx: Tx, task_id: str) -> Explanation:
    task = get(tx, task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id}")
    if task.state is State.PENDING:
        return Explanation(task.id, task.state, (_not_due(tx, task),))
    if task.state is State.PAUSED:
        wait = Wait(Condition.STATE, "paused", "it is paused; resume it")
        return Explanation(task.id, task.state, (wait,))
    if task.state is not State.QUEUED:
        return Explanation(task.id, task.state, ())
    waits = [*_deadline(tx, task), *_lane(tx, task), *_keys(tx, task), *_nodes(tx, task)]
    return Explanation(task.id, task.state, tuple(waits) or tuple(_order(tx, task)))


def _not_due(tx: Tx, task: Task) -> Wait:
    left = seconds(task.run_at - tx.now)
    after = " after a failed attempt" if task.failures else ""
    text = f"it is due in {left:.1f} s{after}" if left > 0 else "it is due and about to be queued"
    return Wait(Condition.STATE, "not_due", text, {"run_at": task.run_at})


def _deadline(tx: Tx, task: Task) -> list[Wait]:
    if task.deadline is None or task.deadline > tx.now:
        return []
    text = "its deadline has passed: it is about to fail"
    return [Wait(Condition.STATE, "expired", text, {"deadline": task.deadline})]


def _lane(tx: Tx, task: Task) -> list[Wait]:
    lane = msgspec.json.decode(tx.value(tx.sql("read")["lane"], task.lane), type=_LaneFacts)
    waits: list[Wait] = []
    if lane.yard_paused:
        waits.append(Wait(Condition.LANE, "yard_paused", "the yard is paused"))
    if lane.paused:
        why = f" ({lane.reason})" if lane.reason else ""
        text = f"lane {task.lane} is paused{why}"
        waits.append(Wait(Condition.LANE, "lane_paused", text, {"lane": task.lane}))
    if lane.capacity is not None and lane.running >= lane.capacity:
        text = f"lane {task.lane} is full: {lane.running} of {lane.capacity} running"
        waits.append(
            Wait(
                Condition.LANE,
                "lane_full",
                text,
                {"lane": task.lane, "running": lane.running, "capacity": lane.capacity},
            )
        )
    return waits


def _keys(tx: Tx, task: Task) -> list[Wait]:
    waits: list[Wait] = []
    limits = keys.rules(tx)
    for key, free in keys.room(tx, task.keys).items():
        if free <= 0:
            holders = tx.rows(list[str], tx.sql("read")["holders"], key)
            limit = limits.limit(key)
            by = f"held by {', '.join(holders[:3])}" if holders else "open to nobody"
            text = f"key {key} is full (limit {limit}): {by}"
            figures: dict[str, int | str | list[str]] = {
                "key": key,
                "limit": limit,
                "holders": holders,
            }
            waits.append(Wait(Condition.KEYS, "key_full", text, figures))
    return waits


def _nodes(tx: Tx, task: Task) -> list[Wait]:
    servers = tx.rows(
        list[tuple[str, str, int]], tx.sql("read")["servers"], task.no, tx.boot_id, tx.boot
    )
    if not servers:
        needs = f" with {', '.join(task.requires)}" if task.requires else ""
        text = f"no live worker serves kind {task.kind}{needs}"
        return [Wait(Condition.NODE, "no_node", text, {"kind": task.kind})]
    if not any(state == "ready" for _, state, _ in servers):
        text = f"no worker that serves kind {task.kind} is ready"
        return [Wait(Condition.NODE, "no_ready_node", text, {"nodes": len(servers)})]
    if not any(state == "ready" and free > 0 for _, state, free in servers):
        text = f"all slots of the {len(servers)} worker(s) that serve kind {task.kind} are taken"
        return [Wait(Condition.NODE, "nodes_full", text, {"nodes": len(servers)})]
    return []


def _order(tx: Tx, task: Task) -> list[Wait]:
    before = tx.value(tx.sql("read")["before"], task.no, FAR_BACK)
    if not before:
        return []
    many = f"{before}" if before < FAR_BACK else f"at least {FAR_BACK}"
    text = f"{many} task(s) come before it in lane {task.lane}"
    return [Wait(Condition.ORDER, "not_first", text, {"before": before})]
