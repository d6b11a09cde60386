"""Places: the rank a task gets when it is queued, and what moves it (domain/order.py)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.lane import Lane, Order
from taskyard.domain.order import next_round, rank
from taskyard.domain.state import Reason
from taskyard.store.sqlite import keys
from taskyard.store.sqlite.tx import Tx, numbers, to_json
from taskyard.store.sqlite.unreadable import sift


class Place(msgspec.Struct, frozen=True):
    rank: int
    rotation: str | None = None  # the group, in a fair lane


class _Numbered(Lane, frozen=True, kw_only=True):
    no: int


class _Waiting(msgspec.Struct, array_like=True):
    no: int
    lane: int
    priority: int
    group: str
    keys: tuple[str, ...]


class _Rotation:
    """The rounds of one fair lane, as tasks join it one after the other."""

    def __init__(self, tx: Tx, lane: int, *, empty: bool) -> None:
        self._tx = tx
        self._lane = lane
        self._empty = empty
        self._present: int | None = None if empty else tx.value(tx.sql("order")["present"], lane)
        self._last: dict[str, int | None] = {}

    def join(self, group: str, *, parked: bool) -> int:
        if group not in self._last:
            self._last[group] = None if self._empty else self._find_last(group)
        joined = next_round(self._present, self._last[group])
        self._last[group] = joined
        if not parked:
            self._present = joined if self._present is None else min(self._present, joined)
        return joined

    def _find_last(self, group: str) -> int | None:
        found: int | None = self._tx.value(self._tx.sql("order")["last"], self._lane, group)
        return found


class Places:
    """Gives places to tasks that are being queued, in the order they are asked for."""

    def __init__(self, tx: Tx, *, particular: bool = True) -> None:
        self._tx = tx
        found = tx.rows(list[_Numbered], tx.sql("order")["particular"]) if particular else []
        self.lanes: dict[int, Lane] = {lane.no: lane for lane in found}
        self._rotations: dict[int, _Rotation] = {}

    def order(self, lane: int) -> Order:
        particular = self.lanes.get(lane)
        return Order.PRIORITY if particular is None else particular.order

    def next(self, lane: int, priority: int, group: str, *, parked: bool) -> Place:
        particular = self.lanes.get(lane)
        if particular is None:
            return Place(priority)
        if particular.order is not Order.FAIR:
            return Place(rank(particular, priority, self._tx.now))
        if lane not in self._rotations:
            self._rotations[lane] = _Rotation(self._tx, lane, empty=False)
        return Place(self._rotations[lane].join(group, parked=parked), group)


def queue(
    tx: Tx, waiting: Sequence[int], reason: Reason, *, park: bool = False
) -> dict[int, Exception]:
    """Queue these in this order, each with a new place; perhaps parked if a key is full.

    Answers those that cannot be read, and stay what they were.
    """
    tasks, bad = sift(
        lambda part: tx.rows(list[_Waiting], tx.sql("order")["waiting"], numbers(part)), waiting
    )
    places = Places(tx)
    full = keys.full(tx, (key for task in tasks for key in task.keys)) if park else set()
    rows: list[tuple[int, int, str | None, str | None]] = []
    for task in tasks:
        blocking = next((key for key in task.keys if key in full), None)
        if places.order(task.lane) is Order.FIFO:
            blocking = None
        place = places.next(task.lane, task.priority, task.group, parked=blocking is not None)
        rows.append((task.no, place.rank, place.rotation, blocking))
    tx.run(tx.sql("order")["queue"], to_json(rows), reason)
    return bad


def reorder(tx: Tx, lane: int, settings: Lane) -> None:
    """Give every queued task of a lane its place in a new order.

    All of them are looked at again: whoever was parked may now come before those who are not. What
    runs gets a place too, for the case that it is given back.
    """
    sql = tx.sql("order")
    rotation = _Rotation(tx, lane, empty=True)
    rows: list[tuple[int, int, str | None]] = []
    for task in tx.rows(list[_Waiting], sql["queued"], lane):
        if settings.order is Order.FAIR:
            rows.append((task.no, rotation.join(task.group, parked=False), task.group))
        else:
            rows.append((task.no, rank(settings, task.priority, tx.now), None))
    for task in tx.rows(list[_Waiting], sql["running"], lane):
        if settings.order is Order.FAIR:
            rows.append((task.no, 0, task.group))
        else:
            rows.append((task.no, rank(settings, task.priority, tx.now), None))
    tx.run(sql["place"], to_json(rows))
