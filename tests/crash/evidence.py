"""Everything the invariants are checked against, and the story of bodies drawn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from taskyard.domain.lane import Audited
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Store
from tests.crash.record import DEATHS, Line, What

FOREVER = 2**62
NANOS = 1_000_000_000
PAGE = 1000


class Seen(msgspec.Struct, frozen=True):
    """A look at one task during the run; None: not ended."""

    at: int  # nanoseconds since boot, taken after the answer
    task: str
    state: State | None


class NodeSeen(msgspec.Struct, frozen=True):
    """A look at one node during the run."""

    at: int  # nanoseconds since boot, taken before the question
    pid: int
    running: int


class Body(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    attempt: int
    pid: int
    start: int
    end: int  # the end of its process if it wrote none of its own
    wall: int  # of its start
    how: str = ""  # "" if it never came to its end
    keys: tuple[str, ...] = ()
    lane: str = ""
    late: bool = False  # it went on, or began, after its process had been frozen for a lease


class Death(msgspec.Struct, frozen=True):
    """The earliest moment at which a process can have ended."""

    at: int
    wall: int
    how: What


class Freeze(msgspec.Struct, frozen=True):
    start: int
    end: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    lines: Sequence[Line]
    tasks: Sequence[Task]
    audit: Sequence[Audited]
    seen: Sequence[Seen] = ()
    nodes: Sequence[NodeSeen] = ()
    limits: Mapping[str, int] = {}  # of keys, where it is not 1
    capacities: Mapping[str, int] = {}  # of lanes
    lease: float = 2.0

    @cached_property
    def saved(self) -> set[str]:
        return {line.task for line in self.lines if line.what is What.SAVED}

    @cached_property
    def by_id(self) -> dict[str, Task]:
        return {task.id: task for task in self.tasks}

    @cached_property
    def deaths(self) -> dict[int, Death]:
        deaths: dict[int, Death] = {}
        for line in sorted(self.lines, key=lambda line: line.at):
            if line.what in DEATHS:
                deaths.setdefault(line.pid, Death(line.at, line.wall, line.what))
        return deaths

    @cached_property
    def freezes(self) -> dict[int, list[Freeze]]:
        """Of each process, those long enough to have cost it its lease."""
        started: dict[int, int] = {}
        freezes: dict[int, list[Freeze]] = {}
        for line in sorted(self.lines, key=lambda line: line.at):
            if line.what is What.STOP:
                started[line.pid] = line.at
            elif line.what is What.CONT and line.pid in started:
                freeze = Freeze(started.pop(line.pid), line.at)
                if freeze.end - freeze.start > self.lease * NANOS * 0.6:
                    freezes.setdefault(line.pid, []).append(freeze)
        return freezes

    @cached_property
    def bodies(self) -> list[Body]:
        """All bodies, in the order of their starts."""
        ends = {(e.task, e.attempt, e.pid): e for e in self.lines if e.what is What.END}
        bodies = [
            self._body(line, ends.get((line.task, line.attempt, line.pid)))
            for line in self.lines
            if line.what is What.START
        ]
        return sorted(bodies, key=lambda body: body.start)

    @cached_property
    def bodies_of(self) -> dict[str, list[Body]]:
        found: dict[str, list[Body]] = {}
        for body in self.bodies:
            found.setdefault(body.task, []).append(body)
        return found

    def _body(self, start: Line, end: Line | None) -> Body:
        death = self.deaths.get(start.pid)
        until = end.at if end is not None else max(start.at, death.at) if death else FOREVER
        late, until = self._thawed(start, until)
        return Body(
            task=start.task,
            attempt=start.attempt,
            pid=start.pid,
            start=start.at,
            end=until,
            wall=start.wall,
            how=end.how if end is not None else "",
            keys=start.keys,
            lane=start.lane,
            late=late,
        )

    def _thawed(self, start: Line, end: int) -> tuple[bool, int]:
        """A frozen body counts until it froze: what it does later must not count for anything.

        Unless nobody took its task meanwhile: then it never was anything but a slow body.
        """
        task = self.by_id.get(start.task)
        if task is None or task.attempt == start.attempt:
            return False, end
        for freeze in self.freezes.get(start.pid, ()):
            if start.at <= freeze.end + NANOS and end > freeze.start:
                return True, min(end, max(start.at, freeze.start))
        return False, end


async def collect(store: Store) -> tuple[list[Task], list[Audited]]:
    """All that the store knows when everything is over."""
    tasks: list[Task] = []
    after: int | None = None
    while page := await store.find(TaskQuery(limit=PAGE, after=after)):
        tasks += page
        after = page[-1].no
    audit: list[Audited] = []
    before: int | None = None
    while lines := await store.audit(limit=PAGE, before=before):
        audit += lines
        before = lines[-1].no
    return tasks, audit
