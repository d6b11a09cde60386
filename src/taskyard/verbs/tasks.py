"""Tasks: enqueue them, look at them, change what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskyard.bridge import Blocking
from taskyard.domain.errors import NotFound
from taskyard.domain.explain import Explanation
from taskyard.domain.state import State
from taskyard.domain.task import Enqueue, NewTask, Task, TaskQuery
from taskyard.handle import Handle, plain
from taskyard.store.joining import joining
from taskyard.store.port import Cancellation, Ending
from taskyard.verbs.base import DEFAULT_ACTOR, Ground


class TaskVerbs(Ground):
    @property
    def bridge(self) -> Blocking[TaskVerbs]:
        """How these verbs are reached by those who block."""
        return self._bridge

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
        return Handle(task_id, self, plain)

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
