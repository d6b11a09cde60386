"""Says which condition of a claim keeps a task waiting, from the facts lua/explain.lua gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import seconds
from taskyard.domain.explain import Condition, Explanation, Wait
from taskyard.domain.state import State
from taskyard.domain.task import Task
from taskyard.store.redis.figures import LaneRow, lane_row
from taskyard.store.redis.rows import whole_tasks

FAR_BACK = 10_000


class _FullKey(msgspec.Struct, array_like=True):
    name: str
    limit: int
    holders: list[str]


class _ServingNode(msgspec.Struct, array_like=True):
    state: str
    free: int


class Facts(msgspec.Struct):
    now: int
    task: Task
    lane: LaneRow
    yard_paused: bool
    full_keys: list[_FullKey]
    nodes: list[_ServingNode]
    before: int


_full_key = msgspec.msgpack.Decoder(_FullKey).decode
_serving_node = msgspec.msgpack.Decoder(_ServingNode).decode


def facts(answer: Sequence[Any]) -> Facts:
    now, tasks, lane, yard_paused, full_keys, nodes, before = answer
    return Facts(
        int(now),
        next(whole_tasks(tasks)),
        lane_row(lane),
        bool(yard_paused),
        [_full_key(key) for key in full_keys],
        [_serving_node(node) for node in nodes],
        before,
    )


def explain(known: Facts) -> Explanation:
    task = known.task
    match task.state:
        case State.PENDING:
            waits: tuple[Wait, ...] = (_not_due(known),)
        case State.PAUSED:
            waits = (Wait(Condition.STATE, "paused", "it is paused; resume it"),)
        case State.QUEUED:
            found = [*_deadline(known), *_lane(known), *_keys(known), *_nodes(known)]
            waits = tuple(found) or tuple(_order(known))
        case _:
            waits = ()
    return Explanation(task.id, task.state, waits)


def _not_due(known: Facts) -> Wait:
    left = seconds(known.task.run_at - known.now)
    after = " after a failed attempt" if known.task.failures else ""
    text = f"it is due in {left:.1f} s{after}" if left > 0 else "it is due and about to be queued"
    return Wait(Condition.STATE, "not_due", text, {"run_at": known.task.run_at})


def _deadline(known: Facts) -> list[Wait]:
    deadline = known.task.deadline
    if deadline is None or deadline > known.now:
        return []
    text = "its deadline has passed: it is about to fail"
    return [Wait(Condition.STATE, "expired", text, {"deadline": deadline})]


def _lane(known: Facts) -> list[Wait]:
    lane, waits = known.lane, []
    if known.yard_paused:
        waits.append(Wait(Condition.LANE, "yard_paused", "the yard is paused"))
    if lane.paused:
        why = f" ({lane.paused_reason})" if lane.paused_reason else ""
        text = f"lane {lane.name} is paused{why}"
        waits.append(Wait(Condition.LANE, "lane_paused", text, {"lane": lane.name}))
    if lane.capacity is not False and lane.running >= lane.capacity:
        text = f"lane {lane.name} is full: {lane.running} of {lane.capacity} running"
        figures: dict[str, int | str | list[str]] = {
            "lane": lane.name,
            "running": lane.running,
            "capacity": lane.capacity,
        }
        waits.append(Wait(Condition.LANE, "lane_full", text, figures))
    return waits


def _keys(known: Facts) -> list[Wait]:
    waits: list[Wait] = []
    for key in known.full_keys:
        by = f"held by {', '.join(key.holders[:3])}" if key.holders else "open to nobody"
        text = f"key {key.name} is full (limit {key.limit}): {by}"
        figures: dict[str, int | str | list[str]] = {
            "key": key.name,
            "limit": key.limit,
            "holders": key.holders,
        }
        waits.append(Wait(Condition.KEYS, "key_full", text, figures))
    return waits


def _nodes(known: Facts) -> list[Wait]:
    task, nodes = known.task, known.nodes
    if not nodes:
        needs = f" with {', '.join(task.requires)}" if task.requires else ""
        text = f"no live worker serves kind {task.kind}{needs}"
        return [Wait(Condition.NODE, "no_node", text, {"kind": task.kind})]
    ready = [node for node in nodes if node.state == "ready"]
    if not ready:
        text = f"no worker that serves kind {task.kind} is ready"
        return [Wait(Condition.NODE, "no_ready_node", text, {"nodes": len(nodes)})]
    if not any(node.free > 0 for node in ready):
        text = f"all slots of the {len(nodes)} worker(s) that serve kind {task.kind} are taken"
        return [Wait(Condition.NODE, "nodes_full", text, {"nodes": len(nodes)})]
    return []


def _order(known: Facts) -> list[Wait]:
    before = known.before
    if not before:
        return []
    many = f"{before}" if before < FAR_BACK else f"at least {FAR_BACK}"
    text = f"{many} task(s) come before it in lane {known.task.lane}"
    return [Wait(Condition.ORDER, "not_first", text, {"before": before})]
