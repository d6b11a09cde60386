"""Workers: who runs tasks, and what each uses."""

from __future__ import annotations

import msgspec
from litestar import Router, get, post

from taskyard.domain.node import Node, NodeState, Usage
from taskyard.server.asks import Actor, InPath, TheYard, operator, viewer
from taskyard.server.words import Moment, iso, name_in


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: NodeState
    kinds: tuple[str, ...]
    capabilities: tuple[str, ...]
    labels: dict[str, str]
    slots: int
    running: int
    host: str | None
    pid: int | None
    registered_at: Moment
    seen_at: Moment
    lease_seconds: float
    lease_left: float  # negative once it has ended
    usage: Usage | None


class Nodes(msgspec.Struct, frozen=True):
    items: list[NodeView]


@get("/", opt=viewer, summary="All workers")
async def list_nodes(yard: TheYard) -> Nodes:
    return Nodes([node_view(node) for node in await yard.nodes()])


@post("/{node:str}/drain", opt=operator, status_code=200, summary="Let a worker claim no more")
async def drain_node(yard: TheYard, actor: Actor, node: InPath) -> NodeView:
    """What it runs goes on."""
    return node_view(await yard.drain_node(name_in(node), actor=actor))


def node_view(node: Node) -> NodeView:
    process = node.process
    return NodeView(
        id=node.id,
        state=node.state,
        kinds=node.kinds,
        capabilities=node.capabilities,
        labels=node.labels,
        slots=node.slots,
        running=node.running,
        host=None if process is None else process.host,
        pid=None if process is None else process.pid,
        registered_at=iso(node.registered_at),
        seen_at=iso(node.seen_at),
        lease_seconds=node.lease_seconds,
        lease_left=node.lease_left,
        usage=node.usage,
    )


routes = Router("/nodes", route_handlers=[list_nodes, drain_node], tags=["workers"])
