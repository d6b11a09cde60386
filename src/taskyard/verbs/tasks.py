"""Tasks: enqueue them, look at them, change what becomes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from taskyard.bridge import Blocking
from taskyard.domain.clock import Instant
from taskyard.domain.errors import IllegalTransition, InvalidOption, NotFound
from taskyard.domain.explain import Explanation
from taskyard.domain.state import WAITING, State
from taskyard.domain.task import Enqueue, NewTask, Page, Task, TaskQuery
from taskyard.engine import journal, tracing
from taskyard.engine.dependencies import plain
from taskyard.handle import Handle
from taskyard.store.joining import joining
from taskyard.store.port import Cancellation, Ending, Pausing
from taskyard.verbs.base import DEFAULT_ACTOR
from taskyard.verbs.logs import LogVerbs

PAGE = 100  # tasks looked at in one step


class TaskVerbs(LogVerbs):
    @property
    def bridge(self) -> Blocking[TaskVerbs]:
        """How these verbs are reached by those who block."""
        return self._bridge

    async def enqueue(self, *tasks: NewTask) -> list[Enqueue]:
        """Save these tasks, all or none: `await yard.enqueue(a.new(1), b.new(2))`."""
        through = tracing.tracer()
        if through is None:
            answers = await self._enqueuer.enqueue(tasks)
        else:
            answers = await tracing.enqueue(tasks, self._enqueuer.enqueue, through)
        journal.enqueued(tasks, answers)
        self._notifier.ring()
        return answers

    async def enqueue_in(self, connection: object, *tasks: NewTask) -> list[Enqueue]:
        """Save these tasks in the transaction of this connection: they come with its commit.

        Only on PostgreSQL and SQLite; docs/guides/transactional_enqueue.md names the connections.
        """
        save = partial(joining(self.store).enqueue_in, connection)
        through = tracing.tracer()
        return await (save(tasks) if through is None else tracing.enqueue(tasks, save, through))

    def enqueue_in_sync(self, connection: object, *tasks: NewTask) -> list[Enqueue]:
        """The same on a connection that blocks."""
        save = partial(joining(self.store).enqueue_in_sync, connection)
        through = tracing.tracer()
        if through is None:
            return save(tasks)
        with tracing.Sending(tasks, through) as sending:
            return sending.answered(save(sending.tasks))

    def handle(self, task_id: str) -> Handle[Any]:
        """A handle on a task known by its id; its result comes as plain data."""
        return Handle(task_id, self, plain)

    async def get(self, task_id: str) -> Task:
        """Everything about one task; `NotFound` if there is none."""
        task = await self.store.get(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id}")
        return task

    async def find(self, query: TaskQuery | None = None) -> list[Task]:
        """Whole tasks, newest first."""
        return await self.store.find(query or TaskQuery())

    async def page(self, query: TaskQuery | None = None) -> Page:
        """The same tasks without payloads and results that may be long, after one short search: a
        page may be short, or empty, although there is a next one."""
        return await self.store.page(query or TaskQuery())

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None:
        """How the task has ended, or None if it has not within so many seconds."""
        await self.get(task_id)
        return await self._waiting.ending(task_id, timeout)

    async def cancel(self, task_id: str, *, actor: str = DEFAULT_ACTOR) -> Cancellation:
        """Cancel a waiting task, or ask a running one to stop."""
        answer = await self.store.cancel(task_id, actor=actor)
        self._notifier.ring()
        return answer

    async def cancel_all(
        self,
        *,
        key: str | None = None,
        kind: str | None = None,
        lane: str | None = None,
        actor: str = DEFAULT_ACTOR,
    ) -> int:
        """Cancel everything with this key, of this kind or in this lane that is here now and has
        not ended: `await yard.cancel_all(key="sub:7", actor="system")`. How many were cancelled,
        or asked to stop.
        """
        if key is None and kind is None and lane is None:
            raise InvalidOption("cancel_all needs a key, a kind or a lane")
        done: set[str] = set()
        begun = await self.store.now()
        while True:
            before = len(done)
            for state in (*WAITING, State.RUNNING):
                query = TaskQuery(state=state, key=key, kind=kind, lane=lane, limit=PAGE)
                await self._cancel_found(query, begun, done, actor)
            if len(done) == before:  # nothing has slipped from one state into another meanwhile
                return len(done)

    async def _cancel_found(
        self, query: TaskQuery, begun: Instant, done: set[str], actor: str
    ) -> None:
        while page := await self.store.find(query):
            for task in page:
                if task.id in done or task.created_at > begun or task.asked == "cancel":
                    continue
                with contextlib.suppress(NotFound, IllegalTransition):  # it has ended meanwhile
                    await self.cancel(task.id, actor=actor)
                    done.add(task.id)
            query = msgspec.structs.replace(query, after=page[-1].no)

    async def pause_task(self, task_id: str, *, actor: str = DEFAULT_ACTOR) -> Pausing:
        """Pause a waiting task, or ask a running one to end at its next checkpoint."""
        answer = await self.store.pause(task_id, actor=actor)
        self._notifier.ring()
        return answer

    async def resume_task(self, task_id: str, *, actor: str = DEFAULT_ACTOR) -> None:
        """Let a paused task wait again where it stood; it goes on from its checkpoint."""
        await self.store.resume(task_id, actor=actor)
        self._notifier.ring()

    async def retry(self, task_id: str, *, actor: str = DEFAULT_ACTOR) -> None:
        """Give a failed or cancelled task a new life, with all its retries."""
        await self.store.retry(task_id, actor=actor)
        self._notifier.ring()

    async def prioritize(self, task_id: str, priority: int, *, actor: str = DEFAULT_ACTOR) -> None:
        """Change the place of a waiting task: 1 is first, 10 last."""
        await self.store.prioritize(task_id, priority, actor=actor)
        self._notifier.ring()

    async def explain(self, task_id: str) -> Explanation:
        """What keeps a task waiting."""
        return await self.store.explain(task_id)

    async def counts(self) -> Mapping[State, int]:
        """How many tasks are in each state."""
        return await self.store.counts()
