"""Finds tasks by filter, newest first.

What has ended stands in one list a state, with lane and route beside the numbers; what waits for
its time or for a key, and what runs, in lists by lane: all in the order of the numbers. They are
merged, and each is read only as far as it is needed. What a list does not know is looked at task by
task, so much in one search.

Ready tasks alone stand in another order, that of claims. The newest tasks of all are looked at
first, for mostly some of them are ready; else all that are ready are gone through.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.state import State
from taskyard.domain.task import SHORT_PAYLOAD, TaskLine, TaskQuery
from taskyard.store.paging import bounds
from taskyard.store.sqlite.tx import Tx, numbers
from taskyard.store.sqlite.unreadable import name, sift, told

MAX_LOOKS = 100_000  # at entries of lists in one search: some tens of milliseconds
ROW = 5  # what it costs to look at the row of a task, in looks at entries
FIRST_LOOKS = 4  # for each task wanted; then twice as many, and so on
LOOKS_FOR_READY = 20  # for each task wanted, or LEAST_LOOKS; then all ready ones are gone through
LEAST_LOOKS = 1_000
MOST_BINDINGS = 6  # of a list

Mark = tuple[int, int]
"""A number with its sign turned, for the newest to come first, and one of these."""
STOP, FOUND, SEEN = range(3)  # no more looks are left; this is one; a list was read down to here


class _Filter(msgspec.Struct):
    """What a list does not know of its tasks, and so must be looked at."""

    since: Instant | None = None
    until: Instant | None = None
    lane: int | None = None
    routes: str | None = None  # JSON
    state: State | None = None
    ready: bool | None = None

    @property
    def is_needed(self) -> bool:
        return any(value is not None for value in msgspec.structs.astuple(self))

    @property
    def is_placed(self) -> bool:
        """Whether it asks for nothing but lane and route."""
        return self == _Filter(lane=self.lane, routes=self.routes)


class _Search:
    """One search: where it looks, and how often it may."""

    def __init__(self, tx: Tx, query: TaskQuery) -> None:
        self._tx = tx
        self._sql = tx.sql("find")
        self._query = query
        self._looks = MAX_LOOKS
        self._head = 1  # entries of each list that are read at first: half of the looks in all
        self._below, self._least = bounds(query, tx.value(self._sql["last"]), self._moment)
        lanes = tx.rows(list[tuple[int, bool]], self._sql["lanes"], query.lane)
        self._lanes = [no for no, named in lanes if query.lane is None or named]
        self._routes = tx.rows(list[int], self._sql["routes"], query.kind)
        self._times = _Filter(since=query.since, until=query.until)
        self._kind = msgspec.structs.replace(
            self._times, routes=None if query.kind is None else numbers(self._routes)
        )

    def _moment(self, no: int) -> tuple[int, Instant] | None:
        found = self._tx.value(self._sql["moment"], no)
        return None if found is None else msgspec.json.decode(found, type=tuple[int, Instant])

    def run(self) -> tuple[list[int], int | None]:
        found: list[int] = []
        if not self._lanes or not self._routes:
            return found, None
        lists = list(self._lists())
        self._head = max(1, MAX_LOOKS // (2 * ROW * len(lists)))
        for turned, what in heapq.merge(*lists):
            if what == STOP:
                return found, -turned
            if what == FOUND:
                found.append(-turned)
            if len(found) == self._query.limit:
                break
        return found, None

    def _lists(self) -> Iterator[Iterator[Mark]]:
        query = self._query
        lane = None if query.lane is None else self._lanes[0]
        placed = msgspec.structs.replace(self._kind, lane=lane)
        if query.key is not None:
            whole = msgspec.structs.replace(placed, state=query.state)
            yield self._walk("named", whole, query.key)
        elif query.state is None and query.kind is None and lane is None:
            yield self._walk("every", self._times)
        else:
            for state in State if query.state is None else (query.state,):
                yield from self._lists_of(state, placed)

    def _lists_of(self, state: State, placed: _Filter) -> Iterator[Iterator[Mark]]:
        match state:
            case State.QUEUED:
                yield self._ready(placed)
                yield from (self._walk("parked", self._kind, lane) for lane in self._lanes)
            case State.PENDING | State.RUNNING:
                yield from (self._walk(state, self._kind, lane) for lane in self._lanes)
            case State.PAUSED:
                yield self._walk("paused", placed)
            case _:
                yield self._walk("ended", placed, state)

    def _walk(self, which: str, unknown: _Filter, *of: str | int) -> Iterator[Mark]:
        """Those of a list that pass, as far as the looks of this search allow.

        Its head is read whatever others have used up: else a search could stop where it began.
        """
        cost = 0 if not unknown.is_needed else 1 if _is_beside(which, unknown) else ROW
        size = min(self._query.limit * (FIRST_LOOKS if cost else 1), self._head)
        below = self._below
        while below > self._least:
            if cost and self._looks <= 0 and below < self._below:
                yield -below, STOP
                return
            asked = min(size, max(1, -(-self._looks // cost))) if cost else size
            passing, count, last = self._read(which, unknown, below, asked, *of)
            self._looks -= cost * count
            yield from ((-no, FOUND) for no in passing)
            if count < asked:
                return
            yield -last, SEEN  # others are read as far before this one is read on
            below, size = last, 2 * size

    def _ready(self, placed: _Filter) -> Iterator[Mark]:
        limit = self._query.limit
        asked = max(LOOKS_FOR_READY * limit, LEAST_LOOKS)
        unknown = msgspec.structs.replace(placed, state=State.QUEUED, ready=True)
        passing, count, last = self._read("every", unknown, self._below, asked)
        yield from ((-no, FOUND) for no in passing)
        if count == asked and len(passing) < limit:
            yield from self._all_ready(last)

    def _all_ready(self, below: int) -> Iterator[Mark]:
        size = self._query.limit
        everywhere = self._query.lane is None and self._query.kind is None
        where = () if everywhere else (numbers(self._lanes), numbers(self._routes))
        which = "ready" if everywhere else "ready_in"
        while below > self._least:
            passing, count, below = self._read(which, self._times, below, size, *where)
            yield from ((-no, FOUND) for no in passing)
            if count < size:
                return
            size *= 10

    def _read(
        self, which: str, unknown: _Filter, below: int, size: int, *of: str | int
    ) -> tuple[list[int], int, int]:
        """The next of a list that pass, how many it has been looked at, and the last of those."""
        asked = below, self._least, size, *of
        if unknown.is_needed:
            around = "placed" if _is_beside(which, unknown) else "passing"
            statement = self._sql[around].format(list=self._sql[which])
            padding = (None,) * (MOST_BINDINGS - len(asked))
            said = msgspec.structs.astuple(unknown)[: 4 if around == "placed" else None]
            return self._tx.rows(tuple[list[int], int, int], statement, *asked, *padding, *said)
        seen = self._tx.rows(list[int], self._sql["numbers"].format(list=self._sql[which]), *asked)
        return seen, len(seen), seen[-1] if seen else 0


def _is_beside(which: str, unknown: _Filter) -> bool:
    """Whether the list itself knows what is asked."""
    return which == "ended" and unknown.is_placed


def search(tx: Tx, query: TaskQuery) -> tuple[list[int], int | None]:
    """Numbers, and the one below which to go on if the search stopped before the page was full."""
    return _Search(tx, query).run()


def lines(tx: Tx, nos: Sequence[int]) -> list[TaskLine]:
    def read(part: Sequence[int]) -> list[TaskLine]:
        return tx.rows(list[TaskLine], tx.sql("find")["lines"], numbers(part), SHORT_PAYLOAD)

    found, bad = sift(read, nos)
    for no, error in bad.items():
        raise told(name(tx, no), error) from error
    return found
