"""The rows of tasks that are being saved."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TypeVar

import msgspec

from taskyard.domain.clock import Instant, micros
from taskyard.domain.lane import Order
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import NewTask, OnFailure
from taskyard.store.sqlite.names import lane_number, route_number
from taskyard.store.sqlite.order import Place, Places
from taskyard.store.sqlite.tx import Tx, to_json


class Newcomer(msgspec.Struct, array_like=True):
    """One whose place is its priority, in the order of insert in sql/enqueue.sql."""

    no: int
    id: str
    lane: int
    route: int
    priority: int
    state: State
    max_charged: int
    keys: str | None
    parked_on: str | None
    group: str | None
    dedup: str | None
    dedup_until: str | None
    timeout: int
    deadline: Instant | None
    run_at: Instant
    payload: str


class Particular(Newcomer, array_like=True):
    """Any other, in the order of insert_particular."""

    reason: Reason = Reason.CREATED
    dedup_held: int | None = None
    ended_at: Instant | None = None
    rank: int = 0
    rotation: str | None = None
    waits_for: int = 0
    on_failure: OnFailure | None = None


Row = TypeVar("Row", bound=Newcomer)


class Newcomers:
    """Makes the rows of one call, in the order of its tasks."""

    def __init__(self, tx: Tx, places: Places, full: Set[str]) -> None:
        self._tx = tx
        self._places = places
        self._full = full

    def plain(self, no: int, task: NewTask, state: State, run_at: Instant) -> Newcomer:
        return self._made(Newcomer, no, task, state, run_at)

    def particular(
        self, no: int, task: NewTask, state: State, run_at: Instant, *, waits_for: int = 0
    ) -> Particular:
        """A queued one gets its place here."""
        row = self._made(Particular, no, task, state, run_at)
        if state is State.QUEUED:
            if self._places.order(row.lane) is Order.FIFO:
                row.parked_on = None
            parked = row.parked_on is not None
            place = self._places.next(row.lane, task.priority, task.group, parked=parked)
        else:
            place = Place(task.priority)
        row.rank, row.rotation = place.rank, place.rotation
        row.waits_for = waits_for
        row.on_failure = None if task.on_failure is OnFailure.CANCEL else task.on_failure
        ended = state in TERMINAL
        row.dedup_held = None if row.dedup is None else int(not ended)
        if ended:
            row.reason, row.ended_at = Reason.DEPENDENCY, self._tx.now
        return row

    def _made(self, kind: type[Row], no: int, task: NewTask, state: State, run_at: Instant) -> Row:
        """One that is queued is parked if it meets a full key."""
        full = self._full if state is State.QUEUED else frozenset()
        return kind(
            no,
            task.id,
            lane_number(self._tx, task.lane),
            route_number(self._tx, task.kind, task.requires),
            task.priority,
            state,
            task.max_charged,
            to_json(task.keys) if task.keys else None,
            next((key for key in task.keys if key in full), None) if full else None,
            task.group or None,
            task.dedup.key if task.dedup else None,
            task.dedup.until if task.dedup else None,
            micros(task.timeout),
            task.deadline,
            run_at,
            task.payload,
        )


def save_traces(tx: Tx, traces: Mapping[int, str]) -> None:
    """By the numbers of tasks, of which those that are not here are left out."""
    if traces:
        tx.run(tx.sql("enqueue")["traces"], to_json(traces))


def run_at_of(tx: Tx, task: NewTask) -> Instant:
    if task.delay is not None:
        return tx.now + micros(task.delay)
    return tx.now if task.run_at is None else task.run_at
