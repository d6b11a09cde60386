"""Saves new tasks for many callers at once: calls that come while one is under way share the next.

A call that finds none under way goes to the store as it is, at once. The more callers there are,
the larger the groups: one commit for each group instead of one for each call. A call stays what it
would be alone: all of it is saved or nothing, and only its own mistakes are its own.

Calls share groups on one loop, the first that came; those of another go to the store by themselves.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import deque
from collections.abc import Sequence

from taskyard.domain.errors import StoreError, StoreUnavailable
from taskyard.domain.task import Enqueue, NewTask
from taskyard.store.port import Store

SMALL = 100  # tasks; a larger call would gain nothing, and others would wait for it
MOST_TASKS = 1_000  # of a group
MOST_TEXT = 1_000_000  # characters of payload in a group


class _Call:
    """One that waits. What is wrong with its tasks shows here, where only its caller hears of it,
    or in the store."""

    __slots__ = ("answers", "ids", "needs", "tasks", "text")

    def __init__(self, tasks: Sequence[NewTask]) -> None:
        self.tasks = tasks
        self.ids = {task.id for task in tasks}
        self.needs = {one for task in tasks for one in task.depends_on}
        self.text = sum([len(task.payload) for task in tasks])
        self.answers: asyncio.Future[list[Enqueue]] = asyncio.get_running_loop().create_future()

    def answer(self, answers: list[Enqueue]) -> None:
        if not self.answers.done():  # its caller may have gone
            self.answers.set_result(answers)

    def fail(self, error: BaseException) -> None:
        if self.answers.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.answers.cancel()
        else:
            self.answers.set_exception(error)


class Enqueuer:
    """Of one yard."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()  # while a loop is chosen
        self._loop: asyncio.AbstractEventLoop | None = None  # whose calls share groups
        self._waiting: deque[_Call] = deque()  # in the order they came
        self._quiet = _set()  # no small call is under way, and none waits
        self._sending: asyncio.Task[None] | None = None
        self._stopping = False

    async def enqueue(self, tasks: Sequence[NewTask]) -> list[Enqueue]:
        """Save these tasks, all or none."""
        if len(tasks) > SMALL or not self._shares_groups():
            return await self._store.enqueue(tasks)
        if not self._quiet.is_set():
            if self._stopping:
                raise StoreUnavailable("the yard is being closed")
            call = _Call(tasks)
            self._waiting.append(call)
            return await call.answers
        self._quiet.clear()
        try:
            return await self._store.enqueue(tasks)
        finally:
            self._forget_gone()
            if self._waiting:
                self._sending = asyncio.create_task(self._send_on(), name="taskyard-enqueue")
            else:
                self._quiet.set()

    async def stop(self) -> None:
        """Wait until everything that came before this has been saved, or refused."""
        if self._loop is not asyncio.get_running_loop():
            return  # its callers are not ours to wait for: the store refuses them once it is closed
        self._stopping = True
        try:
            await self._quiet.wait()
        finally:
            self._stopping = False

    def _shares_groups(self) -> bool:
        """Whether the loop that runs is the one; the first after it was closed takes its place."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            with self._lock:
                if self._loop is None or self._loop.is_closed():
                    self._waiting.clear()
                    self._quiet = _set()
                    self._loop = loop
        return loop is self._loop

    async def _send_on(self) -> None:
        """One group after the other, while there are callers that wait."""
        try:
            while group := self._next_group():
                await self._send(group)
                # Whoever has just been answered and goes on at once is in the next group: without
                # this, those who wait and those who were answered would take turns for ever.
                await asyncio.sleep(0)
        except BaseException as error:
            while self._waiting:
                self._waiting.popleft().fail(error)
            raise
        finally:
            self._quiet.set()

    def _next_group(self) -> list[_Call]:
        """As many as may go together, in their order."""
        group: list[_Call] = []
        ids: set[str] = set()
        tasks = text = 0
        self._forget_gone()
        while self._waiting:
            call = self._waiting[0]
            tasks, text = tasks + len(call.tasks), text + call.text
            if group and (tasks > MOST_TASKS or text > MOST_TEXT):
                break
            # Within one call a task may name another that turns out to be a duplicate, or refused.
            # A caller who names somebody else's task is to hear that there is none.
            if not ids.isdisjoint(call.needs):
                break
            ids |= call.ids
            group.append(self._waiting.popleft())
            self._forget_gone()
        return group

    def _forget_gone(self) -> None:
        """Of callers that do not wait any more nothing has been sent, and nothing will be."""
        while self._waiting and self._waiting[0].answers.done():
            self._waiting.popleft()

    async def _send(self, group: list[_Call]) -> None:
        try:
            await self._save(group)
        except BaseException as error:
            for call in group:
                call.fail(error)
            raise

    async def _save(self, group: list[_Call]) -> None:
        try:
            answers = await self._store.enqueue([task for call in group for task in call.tasks])
        except Exception as error:
            if len(group) > 1 and _may_be_of_one_call(error):
                for call in group:
                    if not call.answers.done():
                        await self._save([call])
            else:
                for call in group:
                    call.fail(_own(error) if len(group) > 1 else error)
        else:
            begin = 0
            for call in group:
                end = begin + len(call.tasks)
                call.answer(answers[begin:end])
                begin = end


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _may_be_of_one_call(error: Exception) -> bool:
    """Not if the store has said what is the matter with itself."""
    return not isinstance(error, StoreError) or type(error) is StoreError


def _own(error: Exception) -> Exception:
    """For one of many callers: a traceback is written into an error while it is raised."""
    own = copy.copy(error).with_traceback(error.__traceback__)
    own.__cause__ = error.__cause__
    return own
