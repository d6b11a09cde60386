"""What a crash test has at hand: processes, a view of their store, and the record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import apsw

from taskyard import Enqueued, NewTask, Task, Yard
from taskyard.domain.node import Node
from taskyard.domain.state import TERMINAL
from tests.crash.crew import PATIENCE, Crew, Member
from tests.crash.enqueuer import insist
from tests.crash.evidence import Evidence, collect
from tests.crash.invariants import violations
from tests.crash.kinds import Kinds
from tests.crash.record import What
from tests.crash.worker import LEASE


class Scene:
    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.yard = Yard(crew.url)
        self.kinds = Kinds(self.yard, crew.recorder)
        self.store = self.yard.store
        self.gate = crew.folder / "gate"
        self.lease = LEASE

    def worker(
        self,
        node: str = "a",
        *kinds: str,
        lease: float | None = None,
        **options: Any,
    ) -> Member:
        """A worker that has begun to claim."""
        member = self.crew.worker(node, kinds=kinds, lease=lease or self.lease, **options)
        self.crew.await_line(What.UP, pid=member.pid)
        return member

    def freeze(self, member: Member) -> None:
        """Between its transactions: in the middle of one it would keep the file from everybody."""
        member.freeze()
        while self._is_locked():
            member.thaw()
            time.sleep(0.01)
            member.freeze()

    def _is_locked(self) -> bool:
        with closing(apsw.Connection(self.crew.url.removeprefix("sqlite:///"))) as db:
            try:
                db.execute("BEGIN IMMEDIATE; ROLLBACK")
            except apsw.BusyError:
                return True
        return False

    def open_gate(self) -> None:
        self.gate.touch()

    async def enqueue(self, *tasks: NewTask) -> list[str]:
        ids = []
        for answer in await self.yard.enqueue(*tasks):
            assert isinstance(answer, Enqueued)
            self.crew.recorder.write(What.SAVED, task=answer.id)
            ids.append(answer.id)
        return ids

    async def enqueue_one(self, task: NewTask) -> str:
        [task_id] = await self.enqueue(task)
        return task_id

    def started(self, task_id: str, attempt: int = 1) -> int:
        """Wait for the body to start; answers the process it runs in."""
        return self.crew.await_line(What.START, task=task_id, attempt=attempt).pid

    async def until(
        self, task_id: str, true: Callable[[Task], bool], seconds: float = PATIENCE
    ) -> Task:
        deadline = time.monotonic() + seconds
        while True:
            task = await insist(lambda: self.yard.get(task_id))
            if true(task):
                return task
            assert time.monotonic() < deadline, f"waited {seconds:g} s, task is {task}"
            await asyncio.sleep(0.01)

    async def ended(self, task_id: str) -> Task:
        return await self.until(task_id, lambda task: task.state in TERMINAL)

    async def all_ended(self, *ids: str) -> list[Task]:
        return [await self.ended(task_id) for task_id in ids]

    async def node(self, name: str) -> Node | None:
        """The newest incarnation of this node, if it is known."""
        found = [node for node in await insist(self.store.nodes) if node.id == name]
        return max(found, key=lambda node: node.lease, default=None)

    async def node_until(self, name: str, true: Callable[[Node | None], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true(node := await self.node(name)):
            assert time.monotonic() < deadline, f"waited {PATIENCE:g} s, {name} is {node}"
            await asyncio.sleep(0.01)

    async def broken(self) -> list[str]:
        """Every violated invariant. Everything must have ended."""
        tasks, audit = await collect(self.store)
        return violations(
            Evidence(lines=self.crew.lines(), tasks=tasks, audit=audit, lease=self.lease)
        )

    async def audited(self, task_id: str) -> list[str]:
        """What was written down about a task, oldest first."""
        lines = await self.store.audit(limit=1000)
        return [line.action for line in reversed(lines) if line.subject == f"task:{task_id}"]
