"""Many claim, finish, enqueue, cancel, move and die at the same time, on one PostgreSQL.

Conformance calls one verb after the other; what only concurrency could break is looked for here:
limits that are exceeded, tasks that run twice, waiters that nobody wakes, deadlocks.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from taskyard.domain.errors import IllegalTransition
from taskyard.domain.lane import LaneChange
from taskyard.domain.node import Lease, NewNode
from taskyard.domain.outcome import Failed, Finished, Outcome, Released, Succeeded, decide
from taskyard.domain.retry import Retry
from taskyard.domain.state import State
from taskyard.domain.task import Claimed, Dedup, NewTask, TaskError, TaskQuery, new_task_id
from taskyard.store.port import ClaimRequest, Store
from taskyard.store.url import open_store
from tests.servers.postgres import shared_url

SEED = int(os.environ.get("TASKYARD_TEST_SEED", "7"))
TASKS = 400
LONGEST = 120.0  # seconds until all of them have ended, where the machine is busy
KEYS = {"a": 1, "b": 1, "c": 2, "d": 3}
CAPACITY = 3
CAPPED = "narrow"
LANES = (CAPPED, "wide", "wide", "other")
ENDINGS: tuple[Outcome, ...] = (
    Succeeded("1"),
    Succeeded(),
    Succeeded(),
    Released(),
    Failed(TaskError("Odd", "again"), after=0.0),
)


class Books:
    """Who runs what, as the workers see it: from the answer of a claim to the call that ends it."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, ...]] = {}
        self.running: dict[str, tuple[Lease, Claimed]] = {}

    def starts(self, lease: Lease, task: Claimed) -> None:
        assert task.id not in self.running, f"{task.id} runs twice"
        self.running[task.id] = (lease, task)
        held = Counter(key for one in self.running for key in self.keys[one])
        assert all(count <= KEYS[key] for key, count in held.items()), held
        lanes = Counter(one.lane for _, one in self.running.values())
        assert lanes[CAPPED] <= CAPACITY, lanes

    def ends(self, task: Claimed) -> None:
        self.running.pop(task.id, None)

    def dies(self, lease: Lease) -> None:
        self.running = {i: run for i, run in self.running.items() if run[0] != lease}


@pytest.fixture
async def stores() -> AsyncIterator[list[Store]]:
    url = f"{shared_url()}?namespace=race_{new_task_id()}"
    made = [open_store(url) for _ in range(4)]
    for store in made:
        await store.open()
    yield made
    for store in made:
        await store.close()


async def works(store: Store, name: str, books: Books, over: asyncio.Event) -> None:
    """Claim, run for a moment, end in some way; now and then die and come back."""
    chance = random.Random(f"{name}{SEED}")
    lease = await store.register(NewNode(id=name, kinds=("work",), slots=4))
    number = 0
    mine: list[Claimed] = []
    while not over.is_set():
        number += 1
        ended = [task for task in mine if chance.random() < 0.7]
        mine = [task for task in mine if task not in ended]
        verdicts = [decide(t, chance.choice(ENDINGS), Retry.fixed(9, delay=0)) for t in ended]
        for task in ended:
            books.ends(task)
        request = ClaimRequest(lease=lease, number=number, room=4, ahead=chance.choice((0, 3)))
        turn = await store.turn(verdicts, request)
        assert all(isinstance(answer, Finished) for answer in turn.finished)
        for task in turn.claim.tasks:
            books.starts(lease, task)
        mine += turn.claim.tasks
        await asyncio.sleep(0)
        if chance.random() < 0.02:
            books.dies(lease)
            mine.clear()
            await store.rescue([lease], ended=False)
            lease = await store.register(NewNode(id=name, kinds=("work",), slots=4))
            number = 0


async def enqueues(store: Store, books: Books) -> None:
    chance = random.Random(SEED)
    made = 0
    while made < TASKS:
        tasks = [
            NewTask(
                kind="work",
                payload="{}",
                lane=chance.choice(LANES),
                priority=chance.randint(1, 3),
                keys=tuple(chance.sample(sorted(KEYS), chance.choice((0, 0, 1, 1, 2)))),
                dedup=Dedup(f"d{chance.randint(0, 50)}") if chance.random() < 0.1 else None,
                delay=chance.choice((None, None, 0.01)),
                max_charged=1000,
            )
            for _ in range(chance.randint(1, 20))
        ]
        books.keys.update((task.id, task.keys) for task in tasks)
        await store.enqueue(tasks)
        made += len(tasks)


async def meddles(store: Store, over: asyncio.Event) -> None:
    """An operator who cannot leave things alone."""
    chance = random.Random(SEED + 1)
    while not over.is_set():
        await store.promote()
        found = await store.find(TaskQuery(limit=50))
        for task in chance.sample(found, min(3, len(found))):
            try:
                match chance.randint(0, 3):
                    case 0:
                        await store.cancel(task.id, actor="ann")
                    case 1:
                        await store.retry(task.id, actor="ann")
                    case _:
                        await store.prioritize(task.id, chance.randint(1, 3), actor="ann")
            except IllegalTransition:
                pass
        await asyncio.sleep(0.01)


async def settled(store: Store) -> None:
    """Wait until every task has ended, at most so long."""
    async with asyncio.timeout(LONGEST):
        while True:
            await store.promote()
            counts = await store.counts()
            if counts[State.QUEUED] + counts[State.PENDING] + counts[State.RUNNING] == 0:
                return
            await asyncio.sleep(0.05)


@pytest.mark.spec("engine-8", "engine-10", "engine-19", "engine-29")
async def test_limits_hold_and_nobody_is_forgotten_when_all_happens_at_once(
    stores: list[Store],
) -> None:
    for name, most in KEYS.items():
        await stores[0].set_key_rule(name, most, actor="ann")
    await stores[0].set_lane(CAPPED, LaneChange(capacity=CAPACITY), actor="ann")
    books, quiet, over = Books(), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for at in range(8):
            group.create_task(works(stores[at % 4], f"node-{at}", books, over))
        meddling = group.create_task(meddles(stores[1], quiet))
        await asyncio.gather(enqueues(stores[2], books), enqueues(stores[3], books))
        quiet.set()
        await meddling
        await settled(stores[0])
        over.set()

    assert await stores[0].keys() == []
    assert sum((await stores[0].counts()).values()) <= len(books.keys)
