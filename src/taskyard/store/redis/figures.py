"""Lanes, keys and nodes, from what the scripts answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import micros, seconds
from taskyard.domain.lane import Key, Lane, Order
from taskyard.domain.node import (
    Ask,
    Hold,
    Lease,
    NewNode,
    News,
    Node,
    NodeState,
    ProcessIdentity,
)
from taskyard.store.redis.rows import given

# Lua stores `false` for what is not there, hence Any where a value may be missing.


class LaneRow(msgspec.Struct, array_like=True, frozen=True):
    """From what lua/parts/figures.lua packs."""

    name: str
    capacity: Any
    paused: bool
    paused_reason: Any
    order: Order
    running: int
    queued: int
    pending: int


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


class NodeRest(msgspec.Struct, frozen=True):
    """What of a node only Python looks at, kept as JSON."""

    labels: dict[str, str]
    process: ProcessIdentity | None


lane_row = msgspec.msgpack.Decoder(LaneRow).decode
_key_row = msgspec.msgpack.Decoder(_KeyRow).decode
_node_row = msgspec.msgpack.Decoder(_NodeRow).decode
_lease_row = msgspec.msgpack.Decoder(_LeaseRow).decode
_node_rest = msgspec.json.Decoder(NodeRest).decode


def lane(packed: bytes) -> Lane:
    row = lane_row(packed)
    return Lane(
        name=row.name,
        capacity=given(row.capacity),
        paused=row.paused,
        paused_reason=given(row.paused_reason),
        order=row.order,
        running=row.running,
        queued=row.queued,
        pending=row.pending,
    )


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
    )


_asks = msgspec.msgpack.Decoder(list[tuple[int, int, str]]).decode
_holds = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode


def news(answer: bytes | None) -> News:
    """What a beat brings back; no answer means that the lease is gone."""
    if answer is None:
        return News(lost=True)
    return News(asks=tuple(Ask(*ask) for ask in _asks(answer)))


def holds(lease: Lease, answer: bytes) -> list[Hold]:
    return [Hold(no, attempt, lease) for no, attempt in _holds(answer)]
