"""Unpacks the facts lua/explain.lua gathers about a task's waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.explain import FAR_BACK, Facts, FullKey, ServingNode, explain
from taskyard.domain.node import NodeState
from taskyard.store.redis.figures import lanes
from taskyard.store.redis.rows import given, whole_tasks

__all__ = ["FAR_BACK", "UNMET", "explain", "facts"]

UNMET = 100  # tasks it depends on that are named at most

_full_key = msgspec.msgpack.Decoder(tuple[str, int, list[str], Any]).decode
_instant = msgspec.msgpack.Decoder(int | bool).decode
_serving_node = msgspec.msgpack.Decoder(tuple[NodeState, int]).decode


def facts(answer: Sequence[Any]) -> Facts:
    now, tasks, lane, yard_paused, full_keys, nodes, before, opens_at, unmet, head = answer
    task, first = next(whole_tasks(tasks)), None if head is None else head.decode()
    return Facts(
        now=int(now),
        task=task,
        lane=lanes([lane])[0],
        yard_paused=bool(yard_paused),
        full_keys=[_key(key) for key in full_keys],
        nodes=[ServingNode(*_serving_node(node)) for node in nodes],
        before=before,
        lane_opens_at=given(_instant(opens_at)),
        unmet=[dependency.decode() for dependency in unmet],
        head=None if first == task.id else first,
    )


def _key(packed: bytes) -> FullKey:
    name, limit, holders, opens_at = _full_key(packed)
    return FullKey(name, limit, holders, given(opens_at))
