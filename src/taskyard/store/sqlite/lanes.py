"""Lanes: how they are set, and those that are not as every other."""

from __future__ import annotations

import msgspec

from taskyard.domain.errors import IllegalTransition
from taskyard.domain.lane import MAX_REORDERED, Lane, LaneChange, Order
from taskyard.store.sqlite import dependencies, order, rates
from taskyard.store.sqlite.names import lane_number
from taskyard.store.sqlite.tx import Tx
from taskyard.store.sqlite.unreadable import UNREADABLE

Entry = tuple[str, str, str]  # of the audit trail: action, subject, detail


def set_lane(tx: Tx, name: str, change: LaneChange, actor: str) -> Lane:
    change.check()
    lane_number(tx, name)
    entries = [
        *_set_limits(tx, name, change),
        *_set_rate(tx, name, change),
        *_set_order(tx, name, change),
        *_set_paused(tx, name, change),
    ]
    tx.audit(actor, entries)
    return lane_of(tx, name)


def _set_limits(tx: Tx, name: str, change: LaneChange) -> list[Entry]:
    sql = tx.sql("lanes")
    entries: list[Entry] = []
    if change.capacity is not msgspec.UNSET:
        tx.run(sql["set_capacity"], name, change.capacity)
        entries.append(("set_capacity", f"lane:{name}", str(change.capacity)))
    if change.max_depth is not msgspec.UNSET:
        tx.run(sql["set_max_depth"], name, change.max_depth)
        entries.append(("set_max_depth", f"lane:{name}", str(change.max_depth)))
    return entries


def _set_rate(tx: Tx, name: str, change: LaneChange) -> list[Entry]:
    if change.rate is msgspec.UNSET:
        return []
    rates.set_of_lane(tx, lane_number(tx, name), change.rate)
    return [("set_rate", f"lane:{name}", "None" if change.rate is None else change.rate.said)]


def _set_order(tx: Tx, name: str, change: LaneChange) -> list[Entry]:
    if change.order is msgspec.UNSET and change.ageing is msgspec.UNSET:
        return []
    before = lane_of(tx, name)
    after = msgspec.structs.replace(
        before,
        order=before.order if change.order is msgspec.UNSET else change.order,
        ageing=before.ageing if change.ageing is msgspec.UNSET else change.ageing,
    )
    changes = _way(before) != _way(after)
    if changes and before.queued > MAX_REORDERED:
        raise IllegalTransition(
            f"lane {name} has {before.queued} queued tasks; its order can be changed while at most "
            f"{MAX_REORDERED:,} are queued"
        )
    tx.run(tx.sql("lanes")["set_order"], name, after.order, after.ageing)
    if changes:
        _reorder(tx, lane_number(tx, name), after)
    return [("set_order", f"lane:{name}", _said(after))]


def _reorder(tx: Tx, lane: int, settings: Lane) -> None:
    try:
        order.reorder(tx, lane, settings)
    except UNREADABLE:
        dependencies.set_aside(tx, tx.rows(list[int], tx.sql("unreadable")["in_lane"], lane))
        order.reorder(tx, lane, settings)


def _way(lane: Lane) -> tuple[Order, float | None]:
    """What its ranks depend on."""
    return lane.order, lane.ageing if lane.order is Order.PRIORITY else None


def _said(lane: Lane) -> str:
    order, ageing = _way(lane)
    return order if ageing is None else f"{order}, ageing {ageing:g} s"


def _set_paused(tx: Tx, name: str, change: LaneChange) -> list[Entry]:
    if change.paused is msgspec.UNSET:
        return []
    tx.run(
        tx.sql("lanes")["set_paused"],
        name,
        int(change.paused),
        change.paused_reason,
        change.paused_until if change.paused else None,
    )
    action = "pause" if change.paused else "resume"
    return [(action, f"lane:{name}", change.paused_reason or "")]


def lane_of(tx: Tx, name: str) -> Lane:
    """One lane with its figures."""
    [lane] = tx.rows(list[Lane], tx.sql("lanes")["list"], name)
    return lane


def list_lanes(tx: Tx) -> list[Lane]:
    return tx.rows(list[Lane], tx.sql("lanes")["list"], None)
