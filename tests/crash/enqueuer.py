"""Keeps a yard busy: saves tasks of all sorts, cancels some, and records what was acknowledged."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from taskyard import Enqueued, IllegalTransition, NewTask, State, Yard
from taskyard.domain.errors import StoreError
from taskyard.domain.task import Duplicate, Enqueue, OnFailure
from tests.crash.kinds import LANE, SHARED, Kinds
from tests.crash.record import Recorder, What
from tests.crash.worker import die_with_parent

KEYS = tuple(f"sub:{number}" for number in range(10))
WAITING = (State.QUEUED, State.PENDING, State.RUNNING)
AGAIN = 0.05  # seconds between two tries

T = TypeVar("T")


class EnqueuerOptions(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    record: str
    seed: str
    keyed: float = 0.4  # of the tasks hold keys
    linked: float = 0.25  # of the tasks depend on others
    backlog: int = 200  # no more than so many wait at once
    most: int | None = None  # tasks; none: until SIGTERM


def run(options: EnqueuerOptions) -> None:
    die_with_parent()
    asyncio.run(_main(options))


async def insist(call: Callable[[], Awaitable[T]], seconds: float = 60.0) -> T:
    """Ask again until the store answers: it is killed and comes back."""
    until = time.monotonic() + seconds
    while True:
        try:
            return await call()
        except StoreError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(AGAIN)


async def _main(options: EnqueuerOptions) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    recorder = Recorder(options.record, "enqueuer")
    yard = Yard(options.url)
    await insist(yard.open)
    async with yard:
        load = Load(yard, recorder, random.Random(options.seed), options)
        while not stopped.is_set() and (options.most is None or load.saved < options.most):
            await load.step()
            await _room(yard, options.backlog, stopped)
    recorder.write(What.DOWN)


async def _room(yard: Yard, backlog: int, stopped: asyncio.Event) -> None:
    """Wait until the workers have caught up."""
    while not stopped.is_set():
        counts = await insist(yard.counts)
        if sum(counts.get(state, 0) for state in WAITING) < backlog:
            return
        await asyncio.sleep(0.02)


def _saved(tasks: Sequence[NewTask], answers: Sequence[Enqueue]) -> list[str]:
    """After a lost answer the same tasks are sent again: then each is its own duplicate."""
    for task, answer in zip(tasks, answers, strict=True):
        assert answer in (Enqueued(task.id), Duplicate(task.id)), answer
    return [task.id for task in tasks]


class Load:
    """What is enqueued: many with one of ten keys, some in a narrow lane, some of each kind, some
    that depend on others of the same call or of earlier ones.
    """

    def __init__(
        self, yard: Yard, recorder: Recorder, dice: random.Random, options: EnqueuerOptions
    ) -> None:
        self._yard = yard
        self._recorder = recorder
        self._dice = dice
        self._keyed = options.keyed
        self._linked = options.linked
        self._kinds = Kinds(yard, recorder)
        self._recent: deque[str] = deque(maxlen=200)
        self.saved = 0

    async def step(self) -> None:
        tasks: list[NewTask] = []
        for _ in range(self._dice.randint(1, 20)):
            tasks.append(self.task(tasks))
        for task_id in _saved(tasks, await insist(lambda: self._yard.enqueue(*tasks))):
            self._recorder.write(What.SAVED, task=task_id)
            self._recent.append(task_id)
            self.saved += 1
        if self._dice.random() < 0.3:
            await self._cancel(self._dice.choice(self._recent))

    async def _cancel(self, task_id: str) -> None:
        try:
            await insist(lambda: self._yard.cancel(task_id, actor="enqueuer"))
        except IllegalTransition:
            return  # it has ended already

    def task(self, before: Sequence[NewTask]) -> NewTask:
        dice, kinds = self._dice, self._kinds
        keys = self._keys()
        lane = LANE if dice.random() < 0.1 else "default"
        how: dict[str, Any] = {"keys": keys, "lane": lane, "priority": dice.randint(1, 10)}
        if dice.random() < self._linked:
            how["depends_on"] = self._others(before)
            how["on_failure"] = dice.choice(tuple(OnFailure))
        match dice.choices(("quick", "slow", "thread", "flaky", "blocking"), (70, 8, 8, 10, 4))[0]:
            case "slow":
                return kinds.slow.options(**how).new(keys, lane, dice.uniform(0.01, 0.2))
            case "thread":
                return kinds.thread.options(**how).new(keys, lane, dice.uniform(0.01, 0.1))
            case "flaky":
                return kinds.flaky.options(**how).new(keys, lane, dice.randint(1, 2))
            case "blocking":
                return kinds.blocking.options(**how).new(keys, lane, dice.uniform(0.005, 0.03))
            case _:
                return kinds.quick.options(**how).new(keys, lane)

    def _others(self, before: Sequence[NewTask]) -> list[str]:
        near = [task.id for task in before] + list(self._recent)[-20:]
        return self._dice.sample(near, min(len(near), self._dice.randint(1, 4)))

    def _keys(self) -> list[str]:
        if self._dice.random() >= self._keyed:
            return []
        match self._dice.choices(("one", "two", "shared"), (75, 12, 13))[0]:
            case "two":
                return self._dice.sample(KEYS, 2)
            case "shared":
                return [SHARED]
            case _:
                return [self._dice.choice(KEYS)]
