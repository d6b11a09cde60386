"""A yard as it may look after a month: many tasks that have ended, a backlog, some of each sort.

Tasks come as if from another yard, with the states and times that they have. The same seed makes
the same mix on every store.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from bench.figure import Stage
from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.moved import Moved
from taskyard.domain.node import NewNode
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import FailedAttempt, Task, TaskError, new_task_id
from taskyard.store.port import ClaimRequest, Store

CHUNK = 1_000
MONTH = 30 * 86_400 * SECOND
RUNNING = 200
RECENT = 0.6  # of all; older ones seldom wait
STACK = '  File "work.py", line 12, in run\n    do(it)\n' * 20

Shares = dict[State, int]


class Sort(msgspec.Struct, frozen=True):
    """Tasks of one kind: where they run, how many there are, and what has become of them."""

    kind: str
    lanes: tuple[str, ...]
    share: int  # of a thousand
    states: Shares
    keys: str = ""  # of one of so many things; or the one key that all of them name
    of: int = 1
    oldest: float = 0.0  # only among the first so many


_ENDED = {State.COMPLETED: 80, State.FAILED: 8, State.CANCELLED: 4}
_WAITING = {State.QUEUED: 60, State.PENDING: 10, State.PAUSED: 2}

SORTS = (
    Sort("download", ("cookie", "no_cookie"), 400, _ENDED | _WAITING, "sub:{}", 5_000),
    Sort("scan", ("scans",), 250, {State.COMPLETED: 90, State.FAILED: 2} | _WAITING),
    Sort("associate", ("default",), 150, {State.COMPLETED: 90, State.QUEUED: 10}),  # never fails
    Sort("mail", ("default", "urgent"), 100, _ENDED | {State.PENDING: 40}),
    Sort("check", ("default",), 80, {State.COMPLETED: 70, State.CANCELLED: 30}, "disk"),
    Sort("thumbnail", ("bulk",), 19, {State.QUEUED: 1}),
    Sort("convert", ("default",), 1, {State.COMPLETED: 1}, oldest=0.01),
)
KINDS = tuple(sort.kind for sort in SORTS)


async def fill(stage: Stage, store: Store, count: int) -> Instant:
    """Answers when the first of them was created."""
    now = await store.now()
    first = now - MONTH
    with stage.steps("tasks of all sorts", count) as advance:
        chunk: list[Moved] = []
        for task in tasks(count, first, now):
            chunk.append(Moved(task, rank=task.priority))
            if len(chunk) == CHUNK:
                await store.import_tasks(chunk)
                advance(len(chunk))
                chunk = []
        await store.import_tasks(chunk)
    await store.set_key_rule("disk", 1_000, actor="bench")
    await _run_some(store)
    return first


async def _run_some(store: Store) -> None:
    lease = await store.register(
        NewNode(id="bench", kinds=KINDS, slots=RUNNING, lease_seconds=36_000)
    )
    room = RUNNING
    for number in range(1, 100):
        claim = await store.claim(ClaimRequest(lease=lease, number=number, room=room))
        room -= len(claim.tasks)
        if not room:
            return


def tasks(count: int, first: Instant, last: Instant) -> Iterator[Task]:
    chance = random.Random(7)
    step = (last - first) // (count + 1)
    shares = [sort.share for sort in SORTS]
    for n in range(count):
        sort = chance.choices(SORTS, shares)[0]
        if sort.oldest and n > sort.oldest * count:
            sort = SORTS[0]
        yield _task(chance, sort, n, n / count, first + n * step)


def _task(chance: random.Random, sort: Sort, n: int, age: float, created: Instant) -> Task:
    states = sort.states
    if age < RECENT and not TERMINAL.isdisjoint(states) and chance.random() < 0.98:
        states = {state: share for state, share in states.items() if state in TERMINAL}
    state = chance.choices(list(states), list(states.values()))[0]
    started = created + chance.randrange(SECOND)
    ended = started + chance.randrange(10 * SECOND)
    error = TaskError("OSError", f"the server said {chance.randrange(400, 600)}", STACK)
    tries = chance.choice((1, 2)) if state is State.FAILED else 0
    return Task(
        no=n + 1,
        id=new_task_id(),
        kind=sort.kind,
        lane=chance.choice(sort.lanes),
        priority=chance.choice((3, 5, 5, 5, 8)),
        seq=n + 1,
        payload=f'{{"n":{n},"what":"{"x" * chance.choice((20, 200, 2_000))}"}}',
        state=state,
        reason=_REASONS[state],
        keys=(sort.keys.format(chance.randrange(sort.of)),) if sort.keys else (),
        group=f"customer {n % 500}" if n % 10 == 0 else "",
        attempt=int(state in TERMINAL) or tries,
        charged=int(state in TERMINAL),
        max_charged=4,
        timeout=60.0,
        created_at=created,
        run_at=created if state is not State.PENDING else created + 2 * MONTH,
        started_at=started if state in TERMINAL else None,
        ended_at=ended if state in TERMINAL else None,
        node="worker-1" if state in TERMINAL else None,
        result=f'{{"size":{n}}}' if state is State.COMPLETED else None,
        failures=tuple(
            FailedAttempt(attempt, Reason.ERROR, ended, started, "worker-1", error)
            for attempt in range(1, tries + 1)
        ),
    )


_REASONS = {
    State.PENDING: Reason.CREATED,
    State.QUEUED: Reason.CREATED,
    State.PAUSED: Reason.OPERATOR,
    State.COMPLETED: Reason.FINISHED,
    State.FAILED: Reason.ERROR,
    State.CANCELLED: Reason.OPERATOR,
}
