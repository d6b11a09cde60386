"""The place of a queued task in its lane: (rank, seq). An order is how the rank is found.

A task gets its rank when it is queued and keeps it while it waits, so that every order is a walk
along one index, and a claim need not look at what stands further back.

- `priority`: the priority.
- `priority` with ageing: when it was queued, plus its priority times the seconds that count as
  one step. Of two tasks the one that comes first is the same at every moment, so a task that
  waits overtakes the more urgent ones that come later, and nothing is ever moved.
- `fifo`: 0 for all.
- `fair`: its round. A group has one task in each round, and those of a round start before those
  of the next. Which task of the group that is, is decided when it starts: the first by priority
  and seq. If that is not the one that has the place, the two change places.
"""

from __future__ import annotations

from taskyard.domain.clock import Instant, micros
from taskyard.domain.lane import Lane, Order


def rank(lane: Lane, priority: int, queued_at: Instant) -> int:
    """Of a task in a lane that is not fair."""
    match lane.order:
        case Order.FIFO:
            return 0
        case Order.PRIORITY if lane.ageing is not None:
            return queued_at + priority * micros(lane.ageing)
        case _:
            return priority


def next_round(present: int | None, last: int | None) -> int:
    """Of a task that joins its group in a fair lane.

    `present`: the lowest round of any ready task of the lane; `last`: the highest of any queued
    task, ready or parked, of its group there.
    """
    if last is None:
        return present or 0
    return max(present or 0, last + 1)
