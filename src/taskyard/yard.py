"""Yard: the one object a user holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

import msgspec

from taskyard.domain.classify import Classifier, Rule
from taskyard.domain.errors import InvalidHandler, NotFound
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited, Key, KeyRule, Lane, LaneChange
from taskyard.domain.node import DEFAULT_LEASE_SECONDS, Node
from taskyard.domain.retention import Pruned, Retention
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.state import State
from taskyard.domain.task import (
    DEFAULT_LANE,
    DEFAULT_PRIORITY,
    DEFAULT_TIMEOUT,
    Enqueue,
    NewTask,
    Task,
    TaskQuery,
    check_name,
)
from taskyard.engine.context import Context
from taskyard.engine.maintenance.prune import prune
from taskyard.engine.notifier import Notifier
from taskyard.engine.registry import DEFAULT_RETRY, Kind, Registry
from taskyard.engine.waiting import WaitingRoom
from taskyard.engine.worker import DEFAULT_GRACE, DEFAULT_SLOTS, Worker
from taskyard.handle import Handle
from taskyard.kind import TaskKind
from taskyard.store.joining import joining
from taskyard.store.port import Cancellation, Check, Ending, Schema
from taskyard.store.url import open_store

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_URL = "sqlite:///yard.db"
DEFAULT_ACTOR = "python"
EXIT_INTERRUPTED = 130


class Declare:
    """What `@yard.task(...)` gives: turns a function into a TaskKind."""

    def __init__(self, make: Callable[[Callable[..., Any]], TaskKind[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]]
    ) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> TaskKind[P, R]: ...

    def __call__(self, function: Callable[..., Any]) -> TaskKind[Any, Any]:
        return self._make(function)


class Yard:
    """Kinds, and the store their tasks live in. Nothing is opened before it is used."""

    def __init__(self, url: str = DEFAULT_URL, *, retention: Retention | None = None) -> None:
        """`retention`: how long ended tasks are kept, and when the old ones go."""
        self.url = url
        self.retention = retention or Retention()
        self.retention.check()
        self.store = open_store(url)
        self.registry = Registry()
        self.classifier = Classifier()
        self._notifier = Notifier(self.store)
        self._waiting = WaitingRoom(self.store, self._notifier)
        self._workers: list[Worker] = []

    async def exists(self) -> bool:
        """Whether the store holds a yard already; `open` would make one."""
        return await self.store.exists()

    async def schema(self) -> Schema:
        """How far the schema of the store is from that of this release; `open` brings it there."""
        return await self.store.schema()

    async def open(self) -> None:
        await self.store.open()

    async def close(self) -> None:
        """Drain the workers of this yard, then close the store; idempotent."""
        for worker in self._workers:
            await worker.stop()
        self._workers.clear()
        await self._waiting.stop()
        self._notifier.stop()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.close()

    # --- declaring ---

    def task(
        self,
        bare: None = None,
        /,
        *,
        name: str | None = None,
        lane: str = DEFAULT_LANE,
        priority: int = DEFAULT_PRIORITY,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy = DEFAULT_RETRY,
        rules: Sequence[Rule] = (),
        isolate: bool = False,
        memory_limit: int | None = None,
    ) -> Declare:
        """Declare a kind: `async def` runs on the loop, `def` in a thread.

        `rules` are asked before the yard's own which errors are worth a retry. With `isolate` or a
        `memory_limit` (bytes; 500 MB unless said, 0 for none) bodies run in processes of their
        own, which can be killed; docs/guides/isolated.md.
        """
        if bare is not None:
            raise InvalidHandler("write @yard.task() with its brackets, also without options")

        def make(function: Callable[..., Any]) -> TaskKind[Any, Any]:
            kind = Kind(
                name or function.__name__,
                function,
                lane=lane,
                priority=priority,
                timeout=timeout,
                retry=retry,
                classifier=self.classifier.extended(*rules) if rules else self.classifier,
                isolate=isolate,
                memory_limit=memory_limit,
            )
            self.registry.add(kind)
            return TaskKind(kind, self)

        return Declare(make)

    def kind(self, name: str) -> TaskKind[..., Any]:
        """The declared task of this name."""
        return TaskKind(self.registry[name], self)

    # --- tasks ---

    async def enqueue(self, *tasks: NewTask) -> list[Enqueue]:
        """Save these tasks, all or none: `await yard.enqueue(a.new(1), b.new(2))`."""
        answers = await self.store.enqueue(tasks)
        self._notifier.ring()
        return answers

    async def enqueue_in(self, connection: object, *tasks: NewTask) -> list[Enqueue]:
        """Save these tasks in the transaction of this connection: they come with its commit.

        Only on PostgreSQL and SQLite; docs/guides/transactional_enqueue.md names the connections.
        """
        return await joining(self.store).enqueue_in(connection, tasks)

    def enqueue_in_sync(self, connection: object, *tasks: NewTask) -> list[Enqueue]:
        """The same on a connection that blocks."""
        return joining(self.store).enqueue_in_sync(connection, tasks)

    def handle(self, task_id: str) -> Handle[Any]:
        """A handle on a task known by its id; its result comes as plain data."""
        return Handle(task_id, self, _plain)

    async def get(self, task_id: str) -> Task:
        task = await self.store.get(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id}")
        return task

    async def find(self, query: TaskQuery | None = None) -> list[Task]:
        return await self.store.find(query or TaskQuery())

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None:
        await self.get(task_id)
        return await self._waiting.ending(task_id, timeout)

    async def cancel(self, task_id: str, *, actor: str = DEFAULT_ACTOR) -> Cancellation:
        answer = await self.store.cancel(task_id, actor=actor)
        self._notifier.ring()
        return answer

    async def retry(self, task_id: str, *, actor: str = DEFAULT_ACTOR) -> None:
        await self.store.retry(task_id, actor=actor)
        self._notifier.ring()

    async def prioritize(self, task_id: str, priority: int, *, actor: str = DEFAULT_ACTOR) -> None:
        await self.store.prioritize(task_id, priority, actor=actor)
        self._notifier.ring()

    async def explain(self, task_id: str) -> Explanation:
        return await self.store.explain(task_id)

    async def counts(self) -> Mapping[State, int]:
        return await self.store.counts()

    # --- lanes and keys ---

    async def lanes(self) -> list[Lane]:
        return await self.store.lanes()

    async def set_lane(
        self, name: str, *, capacity: int | None, actor: str = DEFAULT_ACTOR
    ) -> Lane:
        """Most tasks of this lane running at once, over all workers; None: no limit."""
        return await self._change_lane(name, LaneChange(capacity=capacity), actor)

    async def pause_lane(
        self, name: str, *, reason: str | None = None, actor: str = DEFAULT_ACTOR
    ) -> Lane:
        """Start nothing new in this lane; what runs goes on, enqueue still works."""
        return await self._change_lane(name, LaneChange(paused=True, paused_reason=reason), actor)

    async def resume_lane(self, name: str, *, actor: str = DEFAULT_ACTOR) -> Lane:
        return await self._change_lane(name, LaneChange(paused=False), actor)

    async def _change_lane(self, name: str, change: LaneChange, actor: str) -> Lane:
        check_name("lane", name)
        lane = await self.store.set_lane(name, change, actor=actor)
        self._notifier.ring()
        return lane

    async def pause(self, *, actor: str = DEFAULT_ACTOR) -> None:
        """Start nothing new in any lane."""
        await self.store.pause_yard(True, actor=actor)

    async def resume(self, *, actor: str = DEFAULT_ACTOR) -> None:
        await self.store.pause_yard(False, actor=actor)
        self._notifier.ring()

    async def keys(self, limit: int = 100) -> list[Key]:
        return await self.store.keys(limit)

    async def key_rules(self) -> list[KeyRule]:
        return await self.store.key_rules()

    async def limit_key(
        self, pattern: str, limit: int | None, *, actor: str = DEFAULT_ACTOR
    ) -> None:
        """How many may hold this key, or each key with this prefix (`host:*`); None: 1 again."""
        await self.store.set_key_rule(pattern, limit, actor=actor)
        self._notifier.ring()

    async def nodes(self) -> list[Node]:
        return await self.store.nodes()

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        return await self.store.audit(limit=limit, before=before)

    async def prune(
        self,
        *,
        dry_run: bool = False,
        older_than: timedelta | None = None,
        actor: str = DEFAULT_ACTOR,
        told: Callable[[int], None] = lambda _: None,
    ) -> Pruned:
        """Remove now what the retention says, or all ended tasks that are `older_than` this.

        Workers do it daily by themselves. `told` hears how many tasks have gone so far.
        """
        retention = self.retention if older_than is None else self.retention.older_than(older_than)
        return await prune(self.store, retention, actor=actor, dry_run=dry_run, told=told)

    async def diagnose(self) -> Sequence[Check]:
        return await self.store.diagnose()

    # --- working ---

    def worker(
        self,
        *,
        slots: int = DEFAULT_SLOTS,
        kinds: Iterable[str] | None = None,
        capabilities: Iterable[str] = (),
        node_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        grace: float = DEFAULT_GRACE,
    ) -> Worker:
        """A worker in this process: `await worker.start()`, later `await worker.stop()`."""
        worker = Worker(
            self.store,
            self.registry,
            self._notifier,
            slots=slots,
            kinds=kinds,
            capabilities=capabilities,
            node_id=node_id,
            lease_seconds=lease_seconds,
            grace=grace,
            retention=self.retention,
            on_end=self._waiting.told,
        )
        self._workers.append(worker)
        return worker

    async def work(self, **options: Any) -> None:
        """Be a worker until SIGTERM or SIGINT; a second signal stops at once."""
        worker = self.worker(**options)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, _on_signal, stopped)
        try:
            await worker.run_until(stopped)
        finally:
            for name in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(ValueError):
                    loop.remove_signal_handler(name)
            await self.close()


def _on_signal(stopped: asyncio.Event) -> None:
    if stopped.is_set():
        # Twice: whoever sent it does not want to wait, not even for bodies that ignore it. The
        # next worker proves this process dead and takes its tasks back at once.
        logging.shutdown()
        os._exit(EXIT_INTERRUPTED)
    stopped.set()


def _plain(result: str | None) -> Any:
    return None if result is None else msgspec.json.decode(result)
