"""Which tasks a claim looks at: the heads of each lane that has room, in the lane's order."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.lane import Order
from taskyard.domain.node import Lease
from taskyard.domain.rate import Rate
from taskyard.store.sqlite import fair
from taskyard.store.sqlite.found import Found, Place
from taskyard.store.sqlite.tx import Tx
from taskyard.store.sqlite.unreadable import UNREADABLE

MAX_SET = 500
MAX_PLAIN = 8  # streams; where there are more, one that is not plain is likely to be among them


class Stream(msgspec.Struct, array_like=True):
    """A lane and a route with something ready that the node serves."""

    lane: int
    route: int
    room: int | None
    order: Order
    rate: Rate | None
    full_at: Instant | None
    begins_plain: bool  # nothing but room can hold its first task back


class Look(msgspec.Struct):
    """One set of candidates."""

    lanes: dict[int, list[Found]]
    walls: list[Found]  # first of a route of a fifo lane that this node does not serve
    cut_short: bool  # there was more behind them
    moved_back: list[tuple[str, ...]]  # the keys of those that lost a place to one of their group


class Plain(msgspec.Struct):
    """One set of candidates that nothing but room can hold back: their numbers."""

    lanes: dict[int, list[int]]
    cut_short: bool
    whole: str | None = None  # what their worker needs to know of them, as texts of ClaimedRow


_STREAMS = msgspec.json.Decoder(list[Stream])
_PLACED = msgspec.json.Decoder(tuple[list[int], list[int], list[int]])
_NUMBERS = msgspec.json.Decoder(list[int])


def streams(tx: Tx, found_now: str, slots: int) -> list[Stream]:
    """Those of these, as begin in sql/claim.sql finds them, in whose lanes there is room now."""
    found = _STREAMS.decode(found_now)
    for stream in found:
        if stream.rate is not None:
            tokens = stream.rate.tokens(stream.full_at or 0, tx.now)
            stream.room = tokens if stream.room is None else min(stream.room, tokens)
        if stream.room is None and stream.order is not Order.PRIORITY:
            stream.room = slots  # a room that has a limit: nothing is claimed ahead
    return [stream for stream in found if stream.room is None or stream.room > 0]


def look(tx: Tx, streams: Sequence[Stream], want: int, reach: int) -> Look:
    """As many of each lane as could start, and more by `reach` where many were blocked."""
    seen = Look({}, [], cut_short=False, moved_back=[])
    by_lane: dict[int, list[Stream]] = {}
    for stream in streams:
        by_lane.setdefault(stream.lane, []).append(stream)
    for lane, served in by_lane.items():
        found = _first(tx, served, want, reach, seen)
        match served[0].order:
            case Order.FIFO:
                found = _up_to_walls(tx, lane, served, found, seen)
            case Order.FAIR:
                found, moved_back = fair.fill(tx, lane, [s.route for s in served], found)
                seen.moved_back += moved_back
            case Order.PRIORITY:
                pass
        seen.lanes[lane] = found
    return seen


def plain(tx: Tx, streams: Sequence[Stream], want: int, lease: Lease) -> Plain | None:
    """The same as look, for tasks that nothing but room can hold back; None: there are others."""
    if len(streams) > MAX_PLAIN or not all(map(_may_be_plain, streams)):
        return None
    seen = Plain({}, cut_short=False)
    if len(streams) == 1:
        found = _first_whole(tx, streams[0], want, lease, seen)
        if found is not None:
            seen.lanes[streams[0].lane] = found
        return seen if found is not None else None
    by_lane: dict[int, list[Stream]] = {}
    for stream in streams:
        by_lane.setdefault(stream.lane, []).append(stream)
    for lane, served in by_lane.items():
        found = _first_plain(tx, served, want, seen)
        if found is None:
            return None
        seen.lanes[lane] = found
    return seen


def _may_be_plain(stream: Stream) -> bool:
    return stream.begins_plain and stream.order is Order.PRIORITY


def _first_whole(tx: Tx, stream: Stream, want: int, lease: Lease, seen: Plain) -> list[int] | None:
    """The numbers of the first, all of which can be claimed: so they are loaded at once."""
    limit = want if stream.room is None else min(want, stream.room)
    statement = tx.sql("claim")["whole"]
    try:
        found, rows, is_whole = tx.row(statement, stream.lane, stream.route, limit, lease, tx.now)
    except UNREADABLE:
        found = None  # the other way finds out which
    if found is None:
        return None
    nos = _NUMBERS.decode(found)
    seen.cut_short = len(nos) == limit
    seen.whole = rows if is_whole else None
    return nos


def _first_plain(tx: Tx, served: Sequence[Stream], want: int, seen: Plain) -> list[int] | None:
    """The numbers of the first of one lane; their places count where streams must be merged."""
    merges = len(served) > 1
    placed: list[tuple[int, int, int]] = []
    horizon: tuple[int, int, int] | None = None
    for stream in served:
        limit = want if stream.room is None else min(want, stream.room)
        answer = tx.value(tx.sql("claim")["plain"], stream.lane, stream.route, limit, int(merges))
        if answer is None:
            return None
        nos, ranks, seqs = _PLACED.decode(answer)
        full = len(nos) == limit
        seen.cut_short = seen.cut_short or full
        if not merges:
            return nos
        found = list(zip(ranks, seqs, nos, strict=True))
        if full:
            horizon = found[-1] if horizon is None else min(horizon, found[-1])
        placed += found
    placed.sort()
    behind = len(placed) if horizon is None else bisect_right(placed, horizon)
    return [no for _, _, no in placed[:behind]][: served[0].room]


def _first(tx: Tx, served: Sequence[Stream], want: int, reach: int, seen: Look) -> list[Found]:
    """The first of one lane, as far as nothing unseen can come before them."""
    rows: list[list[Found]] = []
    horizon: Place | None = None
    for stream in served:
        fits = want if stream.room is None else min(want, stream.room)
        limit = min(fits * reach, MAX_SET)
        found = tx.rows(
            list[Found], tx.sql("claim")["candidates"], stream.lane, stream.route, limit
        )
        if len(found) == limit:
            seen.cut_short = True
            last = found[-1].place
            horizon = last if horizon is None else min(horizon, last)
        rows.append(found)
    if len(rows) == 1:
        return rows[0]
    merged: Iterable[Found] = heapq.merge(*rows, key=lambda found: found.place)
    return [found for found in merged if horizon is None or found.place <= horizon]


def _up_to_walls(
    tx: Tx, lane: int, served: Sequence[Stream], found: list[Found], seen: Look
) -> list[Found]:
    """Of a fifo lane nothing is taken from behind a task that this node does not serve."""
    heads = tx.rows(list[tuple[int, Found]], tx.sql("claim")["heads"], lane)
    routes = {stream.route for stream in served}
    walls = [head for route, head in heads if route not in routes]
    if not walls:
        return found
    seen.walls += walls
    nearest = min(wall.place for wall in walls)
    return [one for one in found if one.place < nearest]
