"""Unpacks the facts lua/explain.lua gathers about a task's waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.explain import FAR_BACK, Facts, FullKey, ServingNode, explain
from taskyard.domain.node import NodeState
from taskyard.store.redis.figures import lanes
from taskyard.store.redis.rows import whole_tasks

__all__ = ["FAR_BACK", "explain", "facts"]

_full_key = msgspec.msgpack.Decoder(tuple[str, int, list[str]]).decode
_serving_node = msgspec.msgpack.Decoder(tuple[NodeState, int]).decode


def facts(answer: Sequence[Any]) -> Facts:
    now, tasks, lane, yard_paused, full_keys, nodes, before = answer
    return Facts(
        now=int(now),
        task=next(whole_tasks(tasks)),
        lane=lanes([lane])[0],
        yard_paused=bool(yard_paused),
        full_keys=[FullKey(*_full_key(key)) for key in full_keys],
        nodes=[ServingNode(*_serving_node(node)) for node in nodes],
        before=before,
    )
