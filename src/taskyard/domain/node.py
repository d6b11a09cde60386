"""Nodes: whatever runs tasks, and the leases they hold."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from taskyard.domain.clock import Instant

Lease = int
"""One incarnation of a node. A node that registers again gets a new, higher number."""

DEFAULT_LEASE_SECONDS = 30.0


class NodeState(StrEnum):
    REGISTERING = "registering"
    READY = "ready"
    SUSPECT = "suspect"
    DRAINING = "draining"
    DOWN = "down"
    QUARANTINED = "quarantined"


class ProcessIdentity(msgspec.Struct, frozen=True):
    """Enough to prove, on the same host, that a process is gone and was not replaced."""

    host: str
    boot: str
    pid: int
    started: int


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kinds: tuple[str, ...]
    slots: int
    capabilities: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    process: ProcessIdentity | None = None
    lease_seconds: float = DEFAULT_LEASE_SECONDS


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a node uses, as it last said."""

    cpu: float  # cores, over the time since it last said so
    memory: int  # bytes that are in memory, its isolated processes included
    read_bytes: int = 0  # since it began
    written_bytes: int = 0
    processes: int = 1


class Node(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    lease: Lease
    state: NodeState
    kinds: tuple[str, ...]
    slots: int
    running: int
    capabilities: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    process: ProcessIdentity | None = None
    registered_at: Instant
    seen_at: Instant
    lease_seconds: float
    lease_left: float  # seconds; negative once it has ended
    usage: Usage | None = None


class Hold(msgspec.Struct, frozen=True):
    """A running task as the store sees it: the fence, without the rest."""

    no: int
    attempt: int
    lease: Lease = 0  # that claimed it; 0: not compared


class Ask(msgspec.Struct, frozen=True):
    """A running body is asked to stop."""

    no: int
    attempt: int
    what: str  # "cancel" or "pause"


class News(msgspec.Struct, frozen=True):
    """What a beat brings back."""

    lost: bool = False  # the lease is gone: nothing of ours is accepted any more
    asks: tuple[Ask, ...] = ()


def may_serve(
    kinds: frozenset[str], capabilities: frozenset[str], kind: str, requires: tuple[str, ...]
) -> bool:
    """Whether a node serves the route (kind, requires)."""
    return kind in kinds and capabilities.issuperset(requires)
