"""What the tests do to a store, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from taskyard.domain.lane import Audited, Lane, LaneChange
from taskyard.domain.node import Hold, Lease, NewNode, News
from taskyard.domain.outcome import (
    Failed,
    Finished,
    Outcome,
    Paused,
    Released,
    Snoozed,
    Stale,
    Stopped,
    Succeeded,
    Verdict,
    decide,
)
from taskyard.domain.retry import Retry, RetryPolicy
from taskyard.domain.state import Reason, State
from taskyard.domain.task import (
    Claimed,
    Duplicate,
    Enqueued,
    NewTask,
    Refused,
    Task,
    TaskError,
    TaskQuery,
)
from taskyard.store.port import Claim, ClaimRequest, Store

LEASE_SECONDS = 30.0
OneTask = TypeVar("OneTask", Claimed, NewTask, Task)
BROKEN = TaskError("ValueError", "it broke", "Traceback …")
AT_ONCE = Retry.fixed(3, delay=0)


def new(kind: str = "work", **options: Any) -> NewTask:
    return NewTask(kind=kind, payload=options.pop("payload", "{}"), **options)


async def enqueued(store: Store, kind: str = "work", **options: Any) -> str:
    """Save one task; answers its id."""
    [answer] = await store.enqueue([new(kind, **options)])
    assert isinstance(answer, Enqueued), answer
    return answer.id


async def refused_as_duplicate(store: Store, **options: Any) -> str:
    """Try to save one task; answers the id of the one that stands in the way."""
    [answer] = await store.enqueue([new(**options)])
    assert isinstance(answer, Duplicate), answer
    return answer.id


async def refusal(store: Store, **options: Any) -> str:
    """Try to save one task; answers why it was not saved."""
    task = new(**options)
    [answer] = await store.enqueue([task])
    assert isinstance(answer, Refused), answer
    assert await store.get(task.id) is None
    return answer.reason


async def seen(store: Store, task_id: str) -> Task:
    task = await store.get(task_id)
    assert task is not None
    return task


async def parked(store: Store) -> dict[str, str]:
    """Who waits for which key, by id."""
    queued = await store.find(TaskQuery(state=State.QUEUED, limit=1000))
    return {task.id: task.parked_on for task in queued if task.parked_on is not None}


async def state_of(store: Store, task_id: str) -> tuple[State, Reason]:
    task = await seen(store, task_id)
    return task.state, task.reason


class Worker:
    """A node as a test holds it: it knows its lease and numbers its claims."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.store = store
        self.lease = lease
        self.number = 0

    async def ask(self, room: int = 1, *, ahead: int = 0) -> Claim:
        """One claim under a new number."""
        self.number += 1
        return await self.ask_again(room, ahead=ahead)

    async def ask_again(self, room: int = 1, *, ahead: int = 0) -> Claim:
        """The last claim once more, as after a lost answer."""
        return await self.store.claim(
            ClaimRequest(lease=self.lease, number=self.number, room=room, ahead=ahead)
        )

    async def claim(self, room: int = 1, *, ahead: int = 0) -> list[Claimed]:
        """Claim until nothing more is found or the room is used up."""
        tasks: list[Claimed] = []
        while True:
            claim = await self.ask(room - len(tasks), ahead=ahead)
            tasks += claim.tasks
            if not claim.more:
                return tasks

    async def claim_one(self) -> Claimed:
        [task] = await self.claim(1)
        return task

    async def claim_ids(self, room: int = 1) -> list[str]:
        return [task.id for task in await self.claim(room)]

    async def refusal(self) -> str:
        claim = await self.ask(10)
        assert claim.tasks == []
        assert claim.refused is not None
        return claim.refused

    def beat(self) -> News:
        return self.store.beat(self.lease, timeout=10)

    async def holds(self) -> set[Hold]:
        """What the store thinks this node runs."""
        holds = await self.store.holds(self.lease)
        assert len(holds) == len(set(holds))
        return set(holds)


async def node(store: Store, name: str = "node-a", **options: Any) -> Worker:
    """Register a node with ten slots for kind `work`, unless told otherwise."""
    options.setdefault("kinds", ("work",))
    options.setdefault("slots", 10)
    options.setdefault("lease_seconds", LEASE_SECONDS)
    return Worker(store, await store.register(NewNode(id=name, **options)))


async def running(store: Store, worker: Worker, **options: Any) -> Claimed:
    """A task that has just been claimed. Nothing else must be waiting."""
    task_id = await enqueued(store, **options)
    claimed = await worker.claim_one()
    assert claimed.id == task_id
    return claimed


def bare(task: Claimed) -> Claimed:
    """Without its lease, which no store compares then: the attempt alone must be fence enough."""
    return msgspec.structs.replace(task, lease=0)


def hold(task: Claimed) -> Hold:
    return task.hold


def verdict(task: Claimed, outcome: Outcome, policy: RetryPolicy = AT_ONCE) -> Verdict:
    return decide(task, outcome, policy)


def succeeded(task: Claimed, result: str | None = None) -> Verdict:
    return verdict(task, Succeeded(result))


def failed(task: Claimed, *, retry: bool = True, delay: float = 0.0) -> Verdict:
    return verdict(task, Failed(BROKEN, retry=retry, after=delay))


def released(task: Claimed) -> Verdict:
    return verdict(task, Released())


def snoozed(task: Claimed, delay: float) -> Verdict:
    return verdict(task, Snoozed(delay))


def stopped(task: Claimed) -> Verdict:
    return verdict(task, Stopped())


def paused(task: Claimed) -> Verdict:
    return verdict(task, Paused())


async def finish(store: Store, *verdicts: Verdict) -> list[Finished | Stale]:
    return await store.finish(verdicts)


async def complete(store: Store, *tasks: Claimed) -> None:
    answers = await store.finish([succeeded(task) for task in tasks])
    assert answers == [Finished(task.no, State.COMPLETED) for task in tasks]


async def capacity(store: Store, lane: str, most: int | None) -> None:
    await store.set_lane(lane, LaneChange(capacity=most), actor="ann")


async def pause(store: Store, lane: str, paused: bool = True, reason: str | None = None) -> None:
    await store.set_lane(lane, LaneChange(paused=paused, paused_reason=reason), actor="ann")


async def change(store: Store, lane: str, **changes: Any) -> Lane:
    return await store.set_lane(lane, LaneChange(**changes), actor="ann")


async def lane_of(store: Store, name: str) -> Lane:
    [lane] = [lane for lane in await store.lanes() if lane.name == name]
    return lane


async def limit(store: Store, pattern: str, most: int | None) -> None:
    await store.set_key_rule(pattern, most, actor="ann")


def ids(tasks: Sequence[OneTask]) -> list[str]:
    return [task.id for task in tasks]


Line = tuple[str, str, str, str]


async def audited(store: Store, *actions: str) -> list[Line]:
    """(actor, action, subject, detail) of each line with one of these actions, oldest first."""
    lines: list[Audited] = await store.audit(limit=1000)
    return [(a.actor, a.action, a.subject, a.detail) for a in lines[::-1] if a.action in actions]
