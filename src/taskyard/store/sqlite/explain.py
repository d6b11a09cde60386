"""Gathers the facts behind a task's waiting."""

from __future__ import annotations

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.errors import NotFound
from taskyard.domain.explain import FAR_BACK, Explanation, Facts, FullKey, ServingNode
from taskyard.domain.explain import explain as from_facts
from taskyard.domain.lane import Lane, Order
from taskyard.domain.node import NodeState
from taskyard.domain.state import State
from taskyard.domain.task import Task
from taskyard.store.sqlite import dependencies, keys, rates, read
from taskyard.store.sqlite.names import lane_number
from taskyard.store.sqlite.tx import Tx

MAX_UNMET = 10  # of those it depends on, so many are named


class _LaneFacts(Lane, frozen=True, kw_only=True):
    full_at: Instant | None = None


def explain(tx: Tx, task_id: str) -> Explanation:
    task = read.get(tx, task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id}")
    sql = tx.sql("read")
    known = tx.value(tx.sql("lanes")["facts"], task.lane, tx.now)
    lane = msgspec.json.decode(known, type=_LaneFacts)
    return from_facts(
        Facts(
            now=tx.now,
            task=task,
            lane=lane,
            yard_paused=bool(tx.value(sql["yard_paused"], tx.now)),
            full_keys=_full_keys(tx, task),
            nodes=_nodes(tx, task),
            before=tx.value(sql["before"], task.no, FAR_BACK),
            lane_opens_at=_opens_at(tx, lane),
            unmet=dependencies.unmet(tx, task.no, MAX_UNMET) if task.waits_for else [],
            head=_head(tx, task, lane),
        )
    )


def _full_keys(tx: Tx, task: Task) -> list[FullKey]:
    limits, rooms = keys.rules(tx), keys.rooms(tx, task.keys)
    opens = rates.opens_at(tx, rooms.rates)
    holders = tx.sql("read")["holders"]
    return [
        FullKey(key, limits.limit(key), tx.rows(list[str], holders, key), opens.get(key))
        for key in task.keys
        if rooms.free[key] <= 0
    ]


def _opens_at(tx: Tx, lane: _LaneFacts) -> Instant | None:
    if lane.rate is None or lane.full_at is None or lane.rate.tokens(lane.full_at, tx.now) > 0:
        return None
    return lane.rate.opens_at(lane.full_at, tx.now)


def _head(tx: Tx, task: Task, lane: Lane) -> str | None:
    """The task that a fifo lane waits for, if that is another one."""
    if lane.order is not Order.FIFO or task.state is not State.QUEUED:
        return None
    head: str | None = tx.value(tx.sql("read")["head"], lane_number(tx, lane.name))
    return head if head != task.id else None


def _nodes(tx: Tx, task: Task) -> list[ServingNode]:
    rows = tx.rows(
        list[tuple[NodeState, int]], tx.sql("read")["servers"], task.no, tx.boot_id, tx.boot
    )
    return [ServingNode(state, free) for state, free in rows]
