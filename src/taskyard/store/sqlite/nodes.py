"""Nodes and their leases."""

from __future__ import annotations

from taskyard.domain.clock import micros
from taskyard.domain.node import Ask, Hold, Lease, NewNode, News, Node, NodeState, Usage
from taskyard.store.sqlite import rescue
from taskyard.store.sqlite.tx import Tx, to_json


def register(tx: Tx, node: NewNode) -> Lease:
    sql = tx.sql("nodes")
    lease_us = micros(node.lease_seconds)
    lease: Lease = tx.value(
        sql["register"],
        node.id,
        to_json(node.kinds),
        to_json(node.capabilities),
        to_json(node.labels),
        node.slots,
        to_json(node.process) if node.process else None,
        lease_us,
        tx.boot_id,
        tx.boot + lease_us,
        tx.now,
    )
    tx.run(sql["remember"], lease, node.id)
    tx.run(sql["offer_routes"], lease)
    tx.audit("system", [("register", f"node:{node.id}", f"lease {lease}")])
    return lease


def beat(tx: Tx, lease: Lease, usage: Usage | None) -> News:
    """A lease that ran out but was not rescued yet comes back to life: nobody took its tasks."""
    used = None if usage is None else to_json(usage)
    if tx.run(tx.sql("nodes")["renew"], lease, tx.boot, tx.boot_id, tx.now, used) == 0:
        return News(lost=True)
    return _news(tx, lease)


def news(tx: Tx, lease: Lease) -> News:
    if tx.value(tx.sql("nodes")["known"], lease) is None:
        return News(lost=True)
    return _news(tx, lease)


def _news(tx: Tx, lease: Lease) -> News:
    asks = tx.rows(list[tuple[int, int, str]], tx.sql("nodes")["asks"], lease)
    return News(asks=tuple(Ask(*ask) for ask in asks))


def holds(tx: Tx, lease: Lease) -> list[Hold]:
    found = tx.rows(list[tuple[int, int]], tx.sql("nodes")["holds"], lease)
    return [Hold(no, attempt, lease) for no, attempt in found]


def drain(tx: Tx, lease: Lease) -> None:
    tx.run(tx.sql("nodes")["set_state"], lease, NodeState.DRAINING)


def retire(tx: Tx, lease: Lease) -> None:
    rescue.release_all(tx, lease)
    rescue.forget_node(tx, lease)


def list_nodes(tx: Tx) -> list[Node]:
    return tx.rows(list[Node], tx.sql("nodes")["list"], tx.boot_id, tx.boot)


def take_duty(tx: Tx, name: str, holder: Lease, seconds: float) -> bool:
    until = tx.boot + micros(seconds)
    taken = tx.run(tx.sql("upkeep")["take_duty"], name, holder, tx.boot_id, until, tx.boot)
    return taken > 0
