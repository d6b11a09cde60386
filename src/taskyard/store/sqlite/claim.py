"""Gives a node the tasks it may run now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from taskyard.domain.admission import Admission, Candidate, Room, admit, interleave
from taskyard.domain.clock import Instant
from taskyard.domain.lane import Order
from taskyard.domain.node import Lease, NodeState
from taskyard.domain.outcome import Verdict
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed, Until
from taskyard.store.port import Claim, ClaimRequest
from taskyard.store.sqlite import candidates, dependencies, due, keys, rates
from taskyard.store.sqlite.candidates import MAX_SET, Plain, Stream
from taskyard.store.sqlite.finish import finish, free_dedup
from taskyard.store.sqlite.found import ClaimedRow, Found
from taskyard.store.sqlite.tx import Tx, numbers, span, to_json
from taskyard.store.sqlite.unread import Unread
from taskyard.store.sqlite.unreadable import UNREADABLE, corrupt, name, sift

# A claim looks at so many sets of candidates at most; what it parks on the way stays parked, so
# the next claim goes on where this one stopped. Where much is parked the sets grow: whoever waits
# behind a long row of blocked tasks waits for fewer claims.
MAX_ROUNDS = 8
LOADED_AT_ONCE = 100
GROWTH = 4
MAX_WOKEN = 200


class _NodeRow(msgspec.Struct, array_like=True):
    state: NodeState
    alive: bool
    superseded: bool
    free: int
    last_request: int
    yard_paused: int


def claim(tx: Tx, request: ClaimRequest) -> Claim | Unread:
    sql = tx.sql("claim")
    begun = _begin(tx, request.lease)
    if begun is None:
        return Claim([], refused="this lease has ended")
    node = msgspec.json.decode(begun[0], type=_NodeRow)
    if request.number <= node.last_request:
        again = tx.rows(list[tuple[int, bool]], sql["again"], request.lease, request.number)
        ahead = frozenset(no for no, started in again if not started)
        tasks, spoiled = _load(tx, request.lease, [no for no, _ in again])
        return Claim(tasks, ahead, more=spoiled)
    refused = _refusal(node)
    if refused is not None:
        return Claim([], refused=refused)
    return _Search(tx, request, node, begun[1]).run()


def _begin(tx: Tx, lease: Lease) -> tuple[str, str] | None:
    """What there is to know of a node and of what is ready for it."""
    bindings = (lease, tx.boot_id, tx.boot, tx.now)
    found: tuple[str, str] | None = tx.row_or_none(tx.sql("claim")["begin"], *bindings)
    return found


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

    def __init__(self, tx: Tx, request: ClaimRequest, node: _NodeRow, ready: str) -> None:
        self._tx = tx
        self._sql = tx.sql("claim")
        self._request = request
        self._ready: str | None = ready  # until something of it has been taken
        self._slots = max(0, min(request.room, node.free))
        self._ahead = request.ahead
        self._reach = 1
        self._now: list[int] = []
        self._later: list[int] = []
        self._whole: list[str] = []  # of those taken in each round, what need not be loaded then
        self._all_whole = True

    def run(self) -> Claim | Unread:
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
        ahead, more = frozenset(self._later), more and self._slots > 0
        if self._all_whole:
            return Unread(self._whole, len(taken), ahead, more)
        tasks, spoiled = _load(self._tx, self._request.lease, taken)
        return Claim(tasks, ahead, more=more or spoiled)

    def _ready_now(self) -> str:
        if self._ready is None:
            [_, self._ready] = _begin(self._tx, self._request.lease) or ("", "[]")
        ready, self._ready = self._ready, None
        return ready

    def _round(self) -> bool:
        """One set of candidates; says whether another look could find more."""
        tx = self._tx
        streams = candidates.streams(tx, self._ready_now(), self._slots)
        if not streams:
            return False
        want = min(self._slots + self._ahead, MAX_SET)
        try:
            plain = candidates.plain(tx, streams, want, self._request.lease)
            look = candidates.look(tx, streams, want, self._reach) if plain is None else None
        except UNREADABLE:
            if self._set_aside(streams):
                return True  # whoever waited behind them may come before the others
            raise
        if plain is not None:
            return self._take_plain(streams, plain)
        assert look is not None
        if keys.passed_over(tx, look.moved_back):
            return True  # whoever waited behind them comes before what follows
        found = list(interleave(list(look.lanes.values()), start=self._request.number))
        expired = [c for c in (*found, *look.walls) if _is_late(c, tx.now)]
        if expired:
            dependents = due.expire_these(tx, [c.no for c in expired])
            carriers = [c.keys for c in expired if c.keys]
            if carriers or dependents:
                keys.passed_over(tx, carriers)
                return True  # the same, and so does whoever depended on them
            gone = {c.no for c in expired}
            found = [c for c in found if c.no not in gone]
        rooms = keys.rooms(tx, (key for c in found for key in c.keys))
        admission = self._admit(found, streams, rooms.free)
        self._apply(admission)
        self._free_dedup(admission, {c.no for c in found if c.dedup_until == Until.START})
        self._take_tokens(admission, streams, rooms)
        moved = bool(expired or admission.parked)
        # Tasks that may not be claimed ahead would be found again and again.
        return moved or (look.cut_short and bool(admission.admitted or admission.ahead))

    def _take_plain(self, streams: list[Stream], look: Plain) -> bool:
        """What the rest of _round would do with tasks that nothing but room can hold back."""
        limited = {s.lane for s in streams if s.room is not None}
        kept_back = {no for lane in limited for no in look.lanes[lane]}  # not claimed ahead
        queues = list(look.lanes.values())
        found = queues[0] if len(queues) == 1 else list(interleave(queues, self._request.number))
        started = found[: self._slots]
        ahead = [no for no in found[self._slots :] if no not in kept_back][: self._ahead]
        if look.whole is not None and len(started) + len(ahead) == len(found):
            self._whole.append(look.whole)
        else:
            self._all_whole = False
        self._start(started, ahead)
        if limited:
            begun = set(started)
            self._take_lane_tokens(
                streams, {lane: len(begun.intersection(look.lanes[lane])) for lane in limited}
            )
        return look.cut_short and bool(started or ahead)

    def _set_aside(self, streams: list[Stream]) -> bool:
        lanes = numbers({stream.lane for stream in streams})
        ready = self._tx.rows(list[int], self._tx.sql("unreadable")["ready"], lanes)
        return dependencies.set_aside(self._tx, ready)

    def _admit(self, found: list[Found], streams: list[Stream], free: dict[str, int]) -> Admission:
        room = Room(
            slots=self._slots,
            lanes={s.lane: s.room for s in streams},
            keys=free,
            ahead=self._ahead,
            fifo=frozenset(s.lane for s in streams if s.order is Order.FIFO),
        )
        admission = admit(found, room)
        giving_way = self._giving_way(admission, room)
        if giving_way is None:
            return admission
        behind = [c.no for c in found].index(giving_way.no) + 1
        admission = admit(found[:behind], room)
        admission.parked.extend(_blocked(found[behind:], admission, room))
        return admission

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

    def _apply(self, admission: Admission) -> None:
        self._all_whole = False
        self._start([c.no for c in admission.admitted], [c.no for c in admission.ahead])
        keyed = [c.no for c in admission.admitted if c.keys]
        if keyed:
            self._tx.run(self._sql["hold"], numbers(keyed))
        if admission.parked:
            self._reach *= GROWTH
            self._tx.run(self._sql["park"], to_json([(c.no, key) for c, key in admission.parked]))
            others = (tuple(k for k in c.keys if k != key) for c, key in admission.parked)
            # Those behind them may have the same keys and move as they did: in sets that grow.
            keys.passed_over(self._tx, others, each=min(self._reach, MAX_WOKEN))

    def _start(self, started: list[int], ahead: list[int]) -> None:
        self._take(started, self._tx.now)
        self._take(ahead, None)
        self._now += started
        self._later += ahead
        self._slots -= len(started)
        self._ahead -= len(ahead)

    def _free_dedup(self, admission: Admission, until_start: set[int]) -> None:
        if until_start:
            taken = (*admission.admitted, *admission.ahead)
            free_dedup(self._tx, [c.no for c in taken if c.no in until_start])

    def _take_tokens(self, admission: Admission, streams: list[Stream], rooms: keys.Rooms) -> None:
        self._take_lane_tokens(streams, Counter(c.lane for c in admission.admitted))
        if rooms.rates:
            taken = Counter(key for c in admission.admitted for key in c.keys)
            rates.take(self._tx, rooms.rates, taken, keys.waited(self._tx, rooms.rates))

    def _take_lane_tokens(self, streams: list[Stream], started: Mapping[int, int]) -> None:
        for lane, stream in {s.lane: s for s in streams if s.rate is not None}.items():
            if started.get(lane) and stream.rate is not None:
                rates.take_of_lane(self._tx, lane, stream.rate, stream.full_at, started[lane])

    def _take(self, nos: list[int], started_at: Instant | None) -> None:
        if not nos:
            return
        by = self._request.lease, self._request.number, started_at
        neighbours = span(nos)
        if neighbours is None:
            self._tx.run(self._sql["take"], numbers(nos), *by)
        else:
            self._tx.run(self._sql["take_span"], *neighbours, *by)


def _blocked(
    behind: Sequence[Found], admission: Admission, room: Room
) -> Iterator[tuple[Found, str]]:
    """Those that park although nothing starts any more."""
    started = Counter(c.lane for c in admission.admitted)
    taken = Counter(key for c in admission.admitted for key in c.keys)
    for candidate in behind:
        lane = room.lanes[candidate.lane]
        if candidate.lane in room.fifo or (lane is not None and lane <= started[candidate.lane]):
            continue
        full = next((key for key in candidate.keys if room.keys[key] <= taken[key]), None)
        if full is not None:
            yield candidate, full


def _is_late(found: Found, now: Instant) -> bool:
    return found.deadline is not None and found.deadline <= now


def _load(tx: Tx, lease: Lease, taken: list[int]) -> tuple[list[Claimed], bool]:
    """In portions: a thousand of the largest payloads would not fit into one text.

    One that cannot be read fails; says whether there was one.
    """
    rows: list[Claimed] = []
    bad: dict[int, Exception] = {}
    for at in range(0, len(taken), LOADED_AT_ONCE):
        portion = taken[at : at + LOADED_AT_ONCE]
        found, spoiled = sift(lambda part: _read(tx, part), portion)
        rows += found
        bad |= spoiled
    if bad:
        _fail(tx, lease, bad)
    return rows, bool(bad)


def _read(tx: Tx, taken: Sequence[int]) -> list[ClaimedRow]:
    rows = tx.rows(list[ClaimedRow], tx.sql("claim")["load"], numbers(taken), tx.now)
    if len(rows) < len(taken):
        raise msgspec.DecodeError("its payload is gone")
    return rows


def _fail(tx: Tx, lease: Lease, bad: dict[int, Exception]) -> None:
    attempts = tx.rows(list[tuple[int, int]], tx.sql("claim")["attempts"], numbers(bad))
    verdicts = [
        Verdict(
            no=no,
            id=name(tx, no),
            attempt=attempt,
            lease=lease,
            state=State.FAILED,
            reason=Reason.UNDECODABLE,
            charge=1,
            error=corrupt(bad[no]),
        )
        for no, attempt in attempts
    ]
    finish(tx, verdicts)
