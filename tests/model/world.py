"""What the lease model knows: a few tasks in the store, and a few workers.

A world is a value: equal worlds are one state of the search. States of tasks are the plain words
of the domain, because enums hash slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from taskyard.domain.state import TERMINAL as TERMINAL_STATES
from taskyard.domain.state import WAITING as WAITING_STATES
from taskyard.domain.state import State

PENDING, QUEUED, RUNNING = State.PENDING.value, State.QUEUED.value, State.RUNNING.value
COMPLETED, FAILED, CANCELLED = State.COMPLETED.value, State.FAILED.value, State.CANCELLED.value
TERMINAL = frozenset(state.value for state in TERMINAL_STATES)
WAITING = frozenset(state.value for state in WAITING_STATES)

NOBODY = -1

Mode = Literal[
    "up",  # renews in time
    "draining",  # renews in time, claims nothing more
    "silent",  # frozen or cut off: may act at any later moment with what it knew, hears nothing
    "dead",  # no process, or one that has to register anew
]
LeaseState = Literal[
    "live",
    "ended",  # ran out or its process is proven dead, and not taken back yet
    "gone",  # taken back or retired; only a new one follows
]


class Hold(NamedTuple):
    """The fence: this attempt of this task."""

    task: int
    attempt: int

    def __str__(self) -> str:
        return f"t{self.task}#{self.attempt}"


class Task(NamedTuple):
    """A row of the store; `ended` is only for the invariants."""

    state: str = QUEUED
    attempt: int = 0
    charged: int = 0
    asked: bool = False  # its body has been asked to cancel
    owner: int = NOBODY  # the worker under whose lease it runs
    ended: frozenset[int] = frozenset()  # attempts whose end was accepted


class Worker(NamedTuple):
    mode: Mode = "up"
    lease: LeaseState = "live"  # what the store says of its incarnation
    bodies: frozenset[Hold] = frozenset()  # what the worker itself believes it runs

    @property
    def on_time(self) -> bool:
        return self.mode in ("up", "draining")


class World(NamedTuple):
    tasks: tuple[Task, ...]
    workers: tuple[Worker, ...]
    held: int = 0  # room taken in the key, as the store counts it

    def with_task(self, at: int, task: Task) -> World:
        return World((*self.tasks[:at], task, *self.tasks[at + 1 :]), self.workers, self.held)

    def with_worker(self, at: int, worker: Worker) -> World:
        workers = (*self.workers[:at], worker, *self.workers[at + 1 :])
        return World(self.tasks, workers, self.held)

    @property
    def running(self) -> int:
        return sum(task.state == RUNNING for task in self.tasks)

    def runs_of(self, worker: int) -> list[Hold]:
        """What the store says this worker runs."""
        return [
            Hold(at, task.attempt)
            for at, task in enumerate(self.tasks)
            if task.state == RUNNING and task.owner == worker
        ]


@dataclass(frozen=True)
class Config:
    """Tasks that share one key and one lane, and where the search ends."""

    key_limit: int = 1
    capacity: int = 2
    workers: int = 2
    tasks: int = 2
    attempts: int = 3  # the horizon: no claim beyond it
    max_charged: int = 2

    def start(self) -> World:
        return World((Task(),) * self.tasks, (Worker(),) * self.workers)

    def __str__(self) -> str:
        return f"key limit {self.key_limit}, lane capacity {self.capacity}"


def accepted(task: Task, attempt: int) -> bool:
    return task.state == RUNNING and task.attempt == attempt


def lease_has_ended(worker: Worker) -> bool:
    return worker.lease == "ended"


@dataclass(frozen=True)
class Rules:
    """The protocol's decisions. The defaults are Taskyard's; a broken variant changes one."""

    fence: Callable[[Task, int], bool] = accepted
    may_rescue: Callable[[Worker], bool] = lease_has_ended
    claim_raises_attempt: bool = True
    stale_finish_frees_key: bool = False
    cancel_asks_running: bool = True
    release_charge: int = 0
    beat_revives: frozenset[LeaseState] = frozenset({"live", "ended"})
    beat_reconciles: bool = True
    asks_survive: bool = True  # a task that was asked to cancel does not wait again
    revival_keeps_attempt: bool = True


class Step(NamedTuple):
    """One atomic thing that happens, and the world after it."""

    verb: str
    after: World
    worker: int | None = None  # None: upkeep or an operator
    task: int | None = None
    hold: Hold | None = None  # the attempt in whose name it is done
    helps: bool = True  # False: a fault, or an operator's wish: nobody may count on it

    def __str__(self) -> str:
        if self.worker is None:
            return f"{'upkeep' if self.helps else 'operator'} {self.verb} t{self.task}"
        what = self.hold
        if what is None and self.task is not None:
            what = Hold(self.task, self.after.tasks[self.task].attempt)
        return f"w{self.worker} {self.verb} {what or ''}".rstrip()
