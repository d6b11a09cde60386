"""Which of these candidates may run now, given room in lanes, keys and the node.

The rule every store obeys. The SQLite store calls it; the others are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

Thing = TypeVar("Thing")


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A queued task, due and not past its deadline, of a route the node serves."""

    no: int
    lane: int
    priority: int
    seq: int
    keys: tuple[str, ...] = ()
    suspect: bool = False  # its last node died: never claimed ahead, so that a loss is counted


class Room(msgspec.Struct, frozen=True):
    """How much may be started now. A lane without a limit has None."""

    slots: int
    lanes: Mapping[int, int | None]
    keys: Mapping[str, int] = {}
    ahead: int = 0  # beyond the slots, only for tasks with no keys in lanes with no limit
    fifo: frozenset[int] = frozenset()  # lanes that start their first task or nothing


class Admission(msgspec.Struct, frozen=True):
    admitted: list[Candidate]
    ahead: list[Candidate]  # admitted too, but beyond the slots: not to be started at once
    parked: list[tuple[Candidate, str]]  # blocked by this key until it has room


def admit(candidates: Sequence[Candidate], room: Room) -> Admission:
    """Go through the candidates in order and take each one that still fits.

    Room only shrinks on the way, so a candidate passed over could not have been taken later:
    what is admitted is exactly the first eligible ones, and no eligible one is left while
    there is room for it.
    """
    slots, ahead = room.slots, room.ahead
    lanes, keys = dict(room.lanes), dict(room.keys)
    admitted: list[Candidate] = []
    beyond: list[Candidate] = []
    parked: list[tuple[Candidate, str]] = []

    for candidate in candidates:
        lane_room = lanes[candidate.lane]
        if lane_room is not None and lane_room <= 0:
            continue
        blocking = None
        for key in candidate.keys:
            if keys[key] <= 0:
                blocking = key
                break
        if blocking is not None and candidate.lane in room.fifo:
            lanes[candidate.lane] = 0
            continue
        if blocking is not None:
            parked.append((candidate, blocking))
            continue
        if slots > 0:
            slots -= 1
            admitted.append(candidate)
        elif ahead > 0 and lane_room is None and not candidate.keys and not candidate.suspect:
            ahead -= 1
            beyond.append(candidate)
            continue
        elif ahead > 0:
            continue
        else:
            break
        if lane_room is not None:
            lanes[candidate.lane] = lane_room - 1
        for key in candidate.keys:
            keys[key] -= 1
    return Admission(admitted, beyond, parked)


def interleave(queues: Sequence[Sequence[Thing]], start: int = 0) -> Iterator[Thing]:
    """The heads of all queues, then their seconds, …; `start` rotates who is first.

    Lanes share a node like this, so that a long lane cannot starve a short one.
    """
    if len(queues) <= 1:
        yield from (thing for queue in queues for thing in queue)
        return
    turn = start % len(queues)
    rotated = [*queues[turn:], *queues[:turn]]
    for rank in range(max(map(len, rotated))):
        for queue in rotated:
            if rank < len(queue):
                yield queue[rank]
