"""Lanes, keys and nodes, from what the scripts answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from taskyard.domain.clock import micros, seconds
from taskyard.domain.lane import Key, KeyRule, Lane, Order
from taskyard.domain.node import (
    Ask,
    Hold,
    Lease,
    NewNode,
    News,
    Node,
    NodeState,
    ProcessIdentity,
    Usage,
)
from taskyard.domain.rate import Rate
from taskyard.store.redis.rows import given, or_false

# Lua stores `false` for what is not there, hence Any where a value may be missing.


class LaneRow(msgspec.Struct, array_like=True, frozen=True):
    """From what lua/parts/figures.lua packs: figures, then the settings as lua/parts/names.lua has
    them."""

    running: int
    queued: int
    pending: int
    name: str
    capacity: Any
    paused: bool
    paused_reason: Any
    order: Order
    max_depth: Any
    rate: Any
    ageing: Any
    paused_until: Any


class _KeyRow(msgspec.Struct, array_like=True, frozen=True):
    name: str
    limit: int
    waiting: int
    holders: tuple[str, ...]


class _NodeRow(msgspec.Struct, array_like=True, frozen=True):
    id: str
    kinds: tuple[str, ...]
    capabilities: tuple[str, ...]
    slots: int
    lease_us: int
    registered_at: int
    rest: str


class _LeaseRow(msgspec.Struct, array_like=True, frozen=True):
    until: int
    seen_at: int
    state: NodeState
    last_request: int
    usage: str | None = None


class NodeRest(msgspec.Struct, frozen=True):
    """What of a node only Python looks at, kept as JSON."""

    labels: dict[str, str]
    process: ProcessIdentity | None


lane_row = msgspec.msgpack.Decoder(LaneRow).decode
_key_row = msgspec.msgpack.Decoder(_KeyRow).decode
_node_row = msgspec.msgpack.Decoder(_NodeRow).decode
_lease_row = msgspec.msgpack.Decoder(_LeaseRow).decode
_node_rest = msgspec.json.Decoder(NodeRest).decode
_usage = msgspec.json.Decoder(Usage).decode


def lane(packed: bytes) -> Lane:
    row = lane_row(packed)
    return Lane(
        name=row.name,
        capacity=given(row.capacity),
        max_depth=given(row.max_depth),
        rate=rate_of(row.rate),
        order=row.order,
        ageing=float(row.ageing[0]) if row.ageing else None,
        paused=row.paused,
        paused_reason=given(row.paused_reason),
        paused_until=given(row.paused_until),
        running=row.running,
        queued=row.queued,
        pending=row.pending,
    )


def settings(lane: Lane) -> tuple[object, ...]:
    """As lua/parts/names.lua keeps them; false is what is not there."""
    return (
        *(lane.name, or_false(lane.capacity), lane.paused, or_false(lane.paused_reason)),
        *(lane.order, or_false(lane.max_depth), rate_row(lane.rate), ageing_row(lane.ageing)),
        or_false(lane.paused_until),
    )


def rate_row(rate: Rate | None) -> tuple[float, ...] | Literal[False]:
    return rate is not None and (rate.starts, rate.seconds, rate.burst, rate.interval)


def rate_of(row: Any) -> Rate | None:
    return Rate(row[0], float(row[1]), row[2]) if row else None


def ageing_row(ageing: float | None) -> tuple[float, ...] | Literal[False]:
    return ageing is not None and (ageing, micros(ageing))


def rule_text(rule: KeyRule) -> str:
    """As lua/parts/keys.lua reads it: the limit, then the rate."""
    figures = (rule.limit, *(rate_row(rule.rate) or ()))
    return " ".join(map(repr, figures))


def rule(pattern: bytes, text: bytes) -> KeyRule:
    limit, *rate = text.split()
    if not rate:
        return KeyRule(pattern.decode(), int(limit))
    starts, seconds, burst, _ = rate
    return KeyRule(pattern.decode(), int(limit), Rate(int(starts), float(seconds), int(burst)))


def lanes(answer: Sequence[bytes]) -> list[Lane]:
    return sorted(map(lane, answer), key=lambda lane: lane.name)


def key(packed: bytes) -> Key:
    row = _key_row(packed)
    return Key(row.name, row.limit, row.holders, row.waiting)


def node_arguments(node: NewNode) -> tuple[object, ...]:
    """As lua/register.lua takes it."""
    rest = msgspec.json.encode(NodeRest(node.labels, node.process)).decode()
    lease = micros(node.lease_seconds)
    return node.id, node.kinds, node.capabilities, node.slots, lease, rest


def nodes(answer: Sequence[Any]) -> list[Node]:
    now, *rows = answer
    found = [_node(int(now), *rows[at : at + 4]) for at in range(0, len(rows), 4)]
    return sorted(found, key=lambda node: node.lease)


def _node(now: int, lease: bytes, packed: bytes, packed_lease: bytes, running: int) -> Node:
    made, held = _node_row(packed), _lease_row(packed_lease)
    rest = _node_rest(made.rest)
    return Node(
        id=made.id,
        lease=int(lease),
        state=held.state,
        kinds=made.kinds,
        slots=made.slots,
        running=running,
        capabilities=made.capabilities,
        labels=rest.labels,
        process=rest.process,
        registered_at=made.registered_at,
        seen_at=held.seen_at,
        lease_seconds=seconds(made.lease_us),
        lease_left=seconds(held.until - now),
        usage=None if held.usage is None else _usage(held.usage),
    )


def usage_text(usage: Usage | None) -> str | None:
    return None if usage is None else msgspec.json.encode(usage).decode()


_asks = msgspec.msgpack.Decoder(list[tuple[int, int, str]]).decode
_holds = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode


def news(answer: bytes | None) -> News:
    """What a beat brings back; no answer means that the lease is gone."""
    if answer is None:
        return News(lost=True)
    return News(asks=tuple(Ask(*ask) for ask in _asks(answer)))


def holds(lease: Lease, answer: bytes) -> list[Hold]:
    return [Hold(no, attempt, lease) for no, attempt in _holds(answer)]
