"""Gives a node the tasks it may run now."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from taskyard.domain.admission import Admission, Candidate, Room, admit, interleave
from taskyard.domain.node import NodeState
from taskyard.domain.task import Claimed
from taskyard.store.port import Claim, ClaimRequest
from taskyard.store.sqlite import due, keys
from taskyard.store.sqlite.tx import Tx, numbers, to_json

# A claim looks at so many sets of candidates at most; what it parks on the way stays parked, so
# the next claim goes on where this one stopped. Where much is parked the sets grow: whoever waits
# behind a long row of blocked tasks waits for fewer claims.
MAX_ROUNDS = 8
MAX_SET = 500
LOADED_AT_ONCE = 100
GROWTH = 2

_Place = tuple[int, int]


class _NodeRow(msgspec.Struct, array_like=True):
    id: str
    state: NodeState
    alive: bool
    superseded: bool
    free: int
    last_request: int
    yard_paused: int


class _Stream(msgspec.Struct, array_like=True):
    lane: int
    route: int
    room: int | None


class _Found(Candidate, array_like=True, frozen=True):
    deadline: int | None = None


def _place(candidate: Candidate) -> _Place:
    return candidate.priority, candidate.seq


class _ClaimedRow(Claimed, array_like=True, frozen=True):
    pass


def claim(tx: Tx, request: ClaimRequest) -> Claim:
    sql = tx.sql("claim")
    found = tx.value(sql["node"], request.lease, tx.boot_id, tx.boot)
    if found is None:
        return Claim([], refused="this lease has ended")
    node = msgspec.json.decode(found, type=_NodeRow)
    if request.number <= node.last_request:
        again = tx.rows(list[tuple[int, bool]], sql["again"], request.lease, request.number)
        ahead = frozenset(no for no, started in again if not started)
        return Claim(_load(tx, [no for no, _ in again]), ahead)
    refused = _refusal(node)
    if refused is not None:
        return Claim([], refused=refused)
    return _Search(tx, request, node).run()


def _refusal(node: _NodeRow) -> str | None:
    if not node.alive:
        return "this lease has run out"
    if node.superseded:
        return "a newer incarnation of this node has registered"
    if node.state is not NodeState.READY:
        return f"this node is {node.state}"
    return "the yard is paused" if node.yard_paused else None


class _Search:
    """Looks for tasks in rounds until the node is full or nothing eligible is left."""

    def __init__(self, tx: Tx, request: ClaimRequest, node: _NodeRow) -> None:
        self._tx = tx
        self._sql = tx.sql("claim")
        self._request = request
        self._node = node
        self._slots = max(0, min(request.room, node.free))
        self._ahead = request.ahead
        self._reach = 1
        self._now: list[int] = []
        self._later: list[int] = []

    def run(self) -> Claim:
        more = False
        for _ in range(MAX_ROUNDS):
            if self._slots + self._ahead <= 0:
                break
            more = self._round()
            if not more:
                break
        taken = self._now + self._later
        if taken:
            self._tx.run(self._sql["answered"], self._request.lease, self._request.number)
        room_left = self._slots > 0
        return Claim(_load(self._tx, taken), frozenset(self._later), more=more and room_left)

    def _round(self) -> bool:
        """One set of candidates; says whether another look could find more."""
        streams = self._tx.rows(list[_Stream], self._sql["streams"], self._request.lease)
        open_streams = [s for s in streams if s.room is None or s.room > 0]
        if not open_streams:
            return False
        by_lane, cut_short = self._candidates(open_streams)
        found = list(interleave(list(by_lane.values()), start=self._request.number))
        expired = [c for c in found if c.deadline is not None and c.deadline <= self._tx.now]
        if expired:
            due.expire_these(self._tx, [c.no for c in expired])
            carriers = [c.keys for c in expired if c.keys]
            if carriers:
                keys.passed_over(self._tx, carriers)
                return True  # whoever waited behind them comes before what follows
            gone = {c.no for c in expired}
            found = [c for c in found if c.no not in gone]
        room = Room(
            slots=self._slots,
            lanes={s.lane: s.room for s in open_streams},
            keys=keys.room(self._tx, (key for c in found for key in c.keys)),
            ahead=self._ahead,
        )
        admission = admit(found, room)
        giving_way = self._giving_way(admission, room)
        if giving_way is not None:
            admission = admit(found[: [c.no for c in found].index(giving_way.no) + 1], room)
        self._apply(admission)
        moved = bool(expired or admission.parked)
        # Tasks that may not be claimed ahead would be found again and again.
        return moved or (cut_short and bool(admission.admitted or admission.ahead))

    def _giving_way(self, admission: Admission, room: Room) -> Candidate | None:
        """The first that parks on one key and leaves room in another to those who wait for it.

        They are not among the candidates yet, but come before whatever follows it.
        """
        left = {
            candidate: [key for key in candidate.keys if key != full and room.keys[key] > 0]
            for candidate, full in admission.parked
            if len(candidate.keys) > 1
        }
        if not left:
            return None
        waited = keys.waited(self._tx, (key for names in left.values() for key in names))
        return next((c for c, names in left.items() if not waited.isdisjoint(names)), None)

    def _candidates(self, streams: Sequence[_Stream]) -> tuple[dict[int, list[_Found]], bool]:
        """The heads of each lane, in its order; and whether there was more behind them."""
        lanes: dict[int, list[list[_Found]]] = {}
        horizons: dict[int, _Place] = {}
        want = min(self._slots + self._ahead, MAX_SET)
        cut_short = False
        for stream in streams:
            fits = want if stream.room is None else min(want, stream.room)
            limit = min(fits * self._reach, MAX_SET)
            found = self._tx.rows(
                list[_Found], self._sql["candidates"], stream.lane, stream.route, limit
            )
            if len(found) == limit:
                cut_short = True
                last = _place(found[-1])
                horizons[stream.lane] = min(horizons.get(stream.lane, last), last)
            lanes.setdefault(stream.lane, []).append(found)
        return {lane: _merge(rows, horizons.get(lane)) for lane, rows in lanes.items()}, cut_short

    def _apply(self, admission: Admission) -> None:
        started = [c.no for c in admission.admitted]
        ahead = [c.no for c in admission.ahead]
        self._take(started, self._tx.now)
        self._take(ahead, None)
        self._now += started
        self._later += ahead
        self._slots -= len(started)
        self._ahead -= len(ahead)
        keyed = [c.no for c in admission.admitted if c.keys]
        if keyed:
            self._tx.run(self._sql["hold"], numbers(keyed))
        if admission.parked:
            self._reach *= GROWTH
            self._tx.run(self._sql["park"], to_json([(c.no, key) for c, key in admission.parked]))
            others = (tuple(k for k in c.keys if k != key) for c, key in admission.parked)
            keys.passed_over(self._tx, others)

    def _take(self, taken: list[int], started_at: int | None) -> None:
        if taken:
            self._tx.run(
                self._sql["take"],
                numbers(taken),
                self._request.lease,
                self._request.number,
                self._node.id,
                started_at,
            )


def _merge(rows: Sequence[Sequence[_Found]], horizon: _Place | None) -> list[_Found]:
    """One lane's candidates in its order, as far as nothing unseen can come before them."""
    merged = heapq.merge(*rows, key=_place)
    return [c for c in merged if horizon is None or _place(c) <= horizon]


def _load(tx: Tx, taken: list[int]) -> list[Claimed]:
    """In portions: a thousand of the largest payloads would not fit into one text."""
    rows: list[Claimed] = []
    for at in range(0, len(taken), LOADED_AT_ONCE):
        portion = numbers(taken[at : at + LOADED_AT_ONCE])
        rows += tx.rows(list[_ClaimedRow], tx.sql("claim")["load"], portion)
    return rows
