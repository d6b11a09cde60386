"""Runs one task after the other, here and now: what a worker does, without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from taskyard.domain.clock import LONGEST
from taskyard.domain.logs import KeepLogs, Level
from taskyard.domain.node import Hold, Lease, NewNode
from taskyard.domain.outcome import Failed, Outcome, Paused, Released, decide
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress
from taskyard.engine import tracing
from taskyard.engine.context import Context
from taskyard.engine.dependencies import dependencies
from taskyard.engine.executor import CoroutineExecutor, ThreadExecutor
from taskyard.engine.job import Job, Stop
from taskyard.engine.lines import LEAST
from taskyard.engine.log import logger
from taskyard.engine.logbook import LogBook
from taskyard.engine.registry import Registry
from taskyard.engine.resources import Resources
from taskyard.engine.tally import how_it_ended
from taskyard.store.port import ClaimRequest, Ending, Store

log = logger("trial")


class Runner:
    """A node with one slot. Isolated kinds run in place: a test wants to see into them."""

    def __init__(self, store: Store, registry: Registry, capabilities: Sequence[str]) -> None:
        self._store = store
        self._registry = registry
        self._capabilities = tuple(capabilities)
        self._requests = 0
        self.resources = Resources()
        self.least_kept = LEAST[KeepLogs.INFO]

    async def join(self) -> Lease:
        """It serves whatever is declared by now."""
        self._requests = 0
        return await self._store.register(
            NewNode(
                id="trial",
                kinds=self._registry.routes(),
                capabilities=self._capabilities,
                slots=1,
                lease_seconds=LONGEST,
            )
        )

    async def next_claimed(self, lease: Lease) -> Claimed | None:
        """The task that would start now; looks again where a claim has stopped early."""
        while True:
            self._requests += 1
            request = ClaimRequest(lease=lease, number=self._requests, room=1)
            claim = await self._store.claim(request)
            if claim.tasks:
                return claim.tasks[0]
            if not claim.more:
                return None

    async def run(self, claimed: Claimed) -> Outcome:
        """Its body, with everything around it; then what has become of it is stored."""
        loop = asyncio.get_running_loop()
        self._logs = LogBook(self._store, clock=lambda: 0.0)  # time stands still
        ended: asyncio.Future[Outcome] = loop.create_future()
        kind = self._registry[claimed.kind]
        job = Job(claimed, kind, partial(Context, desk=self, log=log, loop=loop))
        job.begin()
        job.span = tracing.run(claimed)
        late = loop.call_later(min(claimed.timeout, LONGEST), job.ask, Stop.TIMEOUT)
        executor: CoroutineExecutor | ThreadExecutor
        if asyncio.iscoroutinefunction(kind.function):
            executor = CoroutineExecutor(lambda _, outcome: ended.set_result(outcome))
        else:
            executor = ThreadExecutor(lambda _, outcome: ended.set_result(outcome), loop)
        executor.start(job)
        outcome = await ended
        late.cancel()
        if isinstance(executor, CoroutineExecutor):
            await executor.stop()
        else:
            executor.stop()
        heeded = Released() if isinstance(outcome, Paused) else outcome
        await self._logs.flush()
        verdict = decide(claimed, heeded, kind.retry)
        if job.span is not None:
            error = outcome.error if isinstance(outcome, Failed) else None
            job.span.end(how_it_ended(outcome, verdict), error)
        await self._store.finish([verdict])
        return outcome

    # --- for contexts ---

    async def report(self, hold: Hold, progress: Progress) -> bool:
        return await self._store.report(hold, progress)

    async def checkpoint(self, hold: Hold, data: str) -> bool:
        return await self._store.checkpoint(hold, data)

    def keep_line(self, hold: Hold, level: Level, text: str) -> None:
        self._logs.add(hold, level, text)

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None) -> list[Enqueue]:
        through = tracing.tracer()
        if through is None:
            return await self._store.enqueue(tasks, by=by)
        return await tracing.enqueue(tasks, partial(self._store.enqueue, by=by), through)

    async def dependencies(self, task_id: str) -> list[Ending]:
        return await dependencies(self._store, task_id)


def plain(payload: str) -> object:
    return msgspec.json.decode(payload)
