"""The row of a task that is being saved."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from taskyard.domain.clock import Instant, micros
from taskyard.domain.lane import Order
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import NewTask, OnFailure
from taskyard.store.sqlite.names import lane_number, route_number
from taskyard.store.sqlite.order import Place, Places
from taskyard.store.sqlite.tx import Tx, to_json


class Newcomer(msgspec.Struct, array_like=True):
    """In the order of insert in sql/enqueue.sql."""

    no: int
    id: str
    lane: int
    route: int
    priority: int
    state: State
    reason: Reason
    max_charged: int
    keys: str | None
    parked_on: str | None
    group: str | None
    dedup: str | None
    dedup_until: str | None
    dedup_held: int | None
    timeout: int
    deadline: Instant | None
    run_at: Instant
    ended_at: Instant | None
    rank: int
    rotation: str | None
    waits_for: int
    on_failure: str | None
    payload: str


class Newcomers:
    """Makes the rows of one call, in the order of its tasks."""

    def __init__(self, tx: Tx, places: Places, full: Set[str]) -> None:
        self._tx = tx
        self._places = places
        self._full = full

    def row(
        self, no: int, task: NewTask, state: State, run_at: Instant, *, waits_for: int = 0
    ) -> Newcomer:
        """A queued one gets its place here, and is parked if it meets a full key."""
        lane = lane_number(self._tx, task.lane)
        place, blocking = Place(task.priority), None
        if state is State.QUEUED:
            if task.keys and self._places.order(lane) is not Order.FIFO:
                blocking = next((key for key in task.keys if key in self._full), None)
            parked = blocking is not None
            place = self._places.next(lane, task.priority, task.group, parked=parked)
        dedup, ended = task.dedup, state in TERMINAL
        return Newcomer(
            no=no,
            id=task.id,
            lane=lane,
            route=route_number(self._tx, task.kind, task.requires),
            priority=task.priority,
            state=state,
            reason=Reason.DEPENDENCY if ended else Reason.CREATED,
            max_charged=task.max_charged,
            keys=to_json(task.keys) if task.keys else None,
            parked_on=blocking,
            group=task.group or None,
            dedup=dedup.key if dedup else None,
            dedup_until=dedup.until if dedup else None,
            dedup_held=int(not ended) if dedup else None,
            timeout=micros(task.timeout),
            deadline=task.deadline,
            run_at=run_at,
            ended_at=self._tx.now if ended else None,
            rank=place.rank,
            rotation=place.rotation,
            waits_for=waits_for,
            on_failure=task.on_failure if task.on_failure is not OnFailure.CANCEL else None,
            payload=task.payload,
        )


def run_at_of(tx: Tx, task: NewTask) -> Instant:
    if task.delay is not None:
        return tx.now + micros(task.delay)
    return tx.now if task.run_at is None else task.run_at
