"""Gathers the facts behind a task's waiting."""

from __future__ import annotations

import msgspec

from taskyard.domain.errors import NotFound
from taskyard.domain.explain import FAR_BACK, Explanation, Facts, FullKey, ServingNode
from taskyard.domain.explain import explain as from_facts
from taskyard.domain.lane import Lane
from taskyard.domain.node import NodeState
from taskyard.domain.task import Task
from taskyard.store.sqlite import keys, read
from taskyard.store.sqlite.tx import Tx


def explain(tx: Tx, task_id: str) -> Explanation:
    task = read.get(tx, task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id}")
    sql = tx.sql("read")
    return from_facts(
        Facts(
            now=tx.now,
            task=task,
            lane=msgspec.json.decode(tx.value(sql["lane"], task.lane), type=Lane),
            yard_paused=bool(tx.value(sql["yard_paused"])),
            full_keys=_full_keys(tx, task),
            nodes=_nodes(tx, task),
            before=tx.value(sql["before"], task.no, FAR_BACK),
        )
    )


def _full_keys(tx: Tx, task: Task) -> list[FullKey]:
    limits = keys.rules(tx)
    room = keys.room(tx, task.keys)
    return [
        FullKey(key, limits.limit(key), tx.rows(list[str], tx.sql("read")["holders"], key))
        for key in task.keys
        if room[key] <= 0
    ]


def _nodes(tx: Tx, task: Task) -> list[ServingNode]:
    rows = tx.rows(
        list[tuple[NodeState, int]], tx.sql("read")["servers"], task.no, tx.boot_id, tx.boot
    )
    return [ServingNode(state, free) for state, free in rows]
