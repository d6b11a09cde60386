"""The worker: one node that claims tasks, runs their bodies and writes what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from taskyard.domain.clock import LONGEST
from taskyard.domain.errors import InvalidOption, StoreError
from taskyard.domain.logs import KeepLogs, Level
from taskyard.domain.node import DEFAULT_LEASE_SECONDS, Hold, Lease, NewNode, may_serve
from taskyard.domain.outcome import Verdict
from taskyard.domain.retention import Retention
from taskyard.domain.task import Enqueue, NewTask, Progress, Task
from taskyard.engine import journal, tracing
from taskyard.engine.bodies import Bodies
from taskyard.engine.brake import Brake
from taskyard.engine.context import Context
from taskyard.engine.conveyor import Conveyor
from taskyard.engine.dependencies import dependencies
from taskyard.engine.hand import Hand
from taskyard.engine.identity import new_node_id, this_process
from taskyard.engine.isolate.place import require_importable
from taskyard.engine.job import Stop
from taskyard.engine.lines import LEAST
from taskyard.engine.log import logger
from taskyard.engine.logbook import LogBook
from taskyard.engine.maintenance.rescue import rescue_predecessors
from taskyard.engine.maintenance.upkeep import Upkeep
from taskyard.engine.membership import Membership
from taskyard.engine.notifier import Notifier
from taskyard.engine.pausing import Pauses
from taskyard.engine.pump import Pump
from taskyard.engine.registry import Registry, Style
from taskyard.engine.resources import Resources
from taskyard.engine.tally import Tally
from taskyard.engine.timekeeper import Timekeeper
from taskyard.engine.watchdog import Watchdog
from taskyard.store.port import Ending, Store

DEFAULT_SLOTS = 100
DEFAULT_GRACE = 30.0

EXIT_MEMORY = 76
"""Of a worker that has drained because of its memory limit: its supervisor starts another."""

log = logger("worker")


class Worker:
    """start → claims and runs; stop → drains. Both may be called twice."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        notifier: Notifier,
        *,
        slots: int = DEFAULT_SLOTS,
        kinds: Iterable[str] | None = None,
        capabilities: Iterable[str] = (),
        node_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        grace: float = DEFAULT_GRACE,
        retention: Retention | None = None,
        memory_limit: int | None = None,
        keep_logs: KeepLogs = KeepLogs.INFO,
        on_end: Callable[[Sequence[Verdict]], None] = lambda _: None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        if slots < 1:
            raise InvalidOption(f"a worker needs at least 1 slot, not {slots}")
        if not 0 < lease_seconds <= LONGEST:
            raise InvalidOption(f"a lease lasts more than 0 seconds, not {lease_seconds:g}")
        if memory_limit is not None and memory_limit <= 0:
            raise InvalidOption(f"memory_limit is in bytes, more than 0, not {memory_limit}")
        self._store = store
        self._registry = registry
        self._notifier = notifier
        self._kinds = tuple(registry.names if kinds is None else kinds)
        for kind in self._kinds:
            if registry[kind].style is Style.PROCESS:  # an unknown one is refused here
                require_importable(registry[kind])
        self._capabilities = tuple(capabilities)
        self.node_id = node_id or new_node_id()
        self._lease_seconds = lease_seconds
        self._grace = grace
        self._retention = retention or Retention()
        self._memory_limit = memory_limit
        self.least_kept = LEAST[keep_logs]
        self._tell_end = on_end
        self._prepare = prepare  # done once, when the store is open
        self.resources = Resources()
        self.hand = Hand(slots)
        self._beginning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._started = False
        self._stopped = asyncio.Event()
        self._leaving: asyncio.Task[None] | None = None

    # --- life ---

    async def start(self) -> None:
        """One that is stopped meanwhile has been started and stopped."""
        if self._beginning is None:
            if self._draining:
                return
            self._beginning = asyncio.create_task(self._start(), name="taskyard-start")
            self._beginning.add_done_callback(self._begun)
        beginning = self._beginning
        try:
            await asyncio.wait((beginning,))
        except asyncio.CancelledError:
            await _cancelled(beginning)
            raise
        if not (self._draining and beginning.cancelled()):
            beginning.result()

    async def _start(self) -> None:
        """Wholly, or not at all."""
        async with AsyncExitStack() as undo:
            await self._begin_life(undo)
            undo.pop_all()

    def _begun(self, beginning: asyncio.Task[None]) -> None:
        if beginning.cancelled() or beginning.exception() is not None:
            self._beginning = None  # nothing is left of it: it may be tried again

    async def _begin_life(self, undo: AsyncExitStack) -> None:
        # Only those who work need psutil.
        from taskyard.engine.usage import Meter  # noqa: PLC0415

        log.get_ready()
        await self._store.open()
        if self._prepare is not None:
            await self._prepare()
        self._notifier.start()
        self._bell = self._notifier.bell()
        self._news_bell = self._notifier.bell()
        undo.callback(self._drop_bells)
        self._logs = LogBook(self._store)
        self._pauses = Pauses(self._grace)
        self._meter = Meter()
        self._brake = Brake(self._store, self._notifier.ring)
        self._tally = Tally(self._store)
        self._timekeeper = Timekeeper(self.hand.running, self._grace)
        conveyor = Conveyor(
            self.hand,
            self._registry,
            partial(Context, desk=self, log=log, loop=asyncio.get_running_loop()),
            may_begin=self._may_begin,
            timekeeper=self._timekeeper,
            pauses=self._pauses,
            logs=self._logs,
            tally=self._tally,
            brake=self._brake,
        )
        self._bodies = conveyor.bodies = Bodies(
            conveyor.done,
            self,
            on_start=conveyor.on_start,
            grace=self._grace,
            lease_seconds=self._lease_seconds,
        )
        undo.push_async_callback(self._bodies.processes.stop)
        self._pump = conveyor.pump = Pump(
            self._store,
            self.hand,
            self._bell,
            self._logs,
            may_claim=lambda: self._membership.is_sure,
            more_end_soon=lambda: self._bodies.has_waiting,
            on_claim=conveyor.take,
            on_end=self._tell_end,
        )
        self._membership = Membership(
            self._store,
            self._node(),
            self.hand,
            self._pump,
            self._news_bell,
            pauses=self._pauses,
            watched=self,
            on_renewed=self._bodies.processes.renewed,
            on_beat=self._look_at_memory,
            measure=self._meter.measure,
        )
        await rescue_predecessors(self._store)
        await self._membership.join()
        undo.push_async_callback(self._leave)
        if any(self._registry[kind].style is Style.PROCESS for kind in self._kinds):
            self._bodies.processes.warm_up()
        self._upkeep = Upkeep(self._store, self._notifier, self, self._retention)
        self.watchdog = Watchdog(self._store, self, self._pump.restart)
        self._started = True  # what follows cannot fail
        self._pump.start(self.lease)
        self._upkeep.start()
        self.watchdog.start()
        self._tally.start()
        self._logs.start()
        self._membership.start()
        log.info("start", node=self.node_id, lease=self.lease, slots=self.hand.slots)

    async def stop(self, grace: float | None = None) -> None:
        """Drain: claim nothing more, let bodies finish, then release what has not finished."""
        if self._ending is None:
            if self._beginning is None:
                return
            end = self._end(self._beginning, self._grace if grace is None else grace)
            self._ending = asyncio.create_task(end, name="taskyard-stop")
        await asyncio.shield(self._ending)  # whoever loses patience does not end it half-way

    async def _end(self, beginning: asyncio.Task[None], grace: float) -> None:
        try:
            await _cancelled(beginning)
            if self._started:
                await self._end_life(grace)
        finally:
            self._stopped.set()

    async def _end_life(self, grace: float) -> None:
        self._membership.stop_joining()
        self._pump.stop_claiming()
        await self._quietly(self._store.drain(self.lease))
        self._pump.give_back_ahead()
        self._bodies.give_back_waiting()
        if self.hand.running:
            log.info("drain", node=self.node_id, running=len(self.hand.running), grace=grace)
        await self.hand.emptied(grace)
        for job in list(self.hand.running.values()):
            job.ask(Stop.DRAIN)
        await self.hand.emptied(min(5.0, self._grace))
        await self._bodies.processes.stop()
        if self.hand.running:
            log.error("bodies that do not stop are left behind", tasks=self._names())
        await self.watchdog.stop()
        await self._upkeep.stop()
        await self._membership.stop()
        await self._pump.stop()
        await self._brake.stop()
        await self._tally.stop()
        await self._logs.stop()
        self._timekeeper.stop()
        if not self.hand.running:
            # Bodies left behind keep their lease, and the heartbeat that ends the process before
            # they could outlive it: nobody may overlap them.
            await self._leave()
        await self._bodies.stop(all_gone=not self.hand.running)
        if not self.hand.running:
            await self.resources.close()
        self._drop_bells()
        log.info("stop", node=self.node_id, left=len(self.hand.running))

    def _node(self) -> NewNode:
        return NewNode(
            id=self.node_id,
            kinds=self._kinds,
            capabilities=self._capabilities,
            slots=self.hand.slots,
            process=this_process(),
            lease_seconds=self._lease_seconds,
        )

    async def run_until(self, stopped: asyncio.Event) -> int:
        """Work until then, or until it is worn out; says with which code the process should end."""
        await self.start()
        enough = [asyncio.create_task(event.wait()) for event in (stopped, self._stopped)]
        try:
            await asyncio.wait(enough, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in enough:
                waiting.cancel()
            await self.stop()
        return EXIT_MEMORY if self.is_worn_out else 0

    @property
    def is_worn_out(self) -> bool:
        """Whether it has used more memory than it may: it drains, and is to be replaced."""
        return self._leaving is not None

    def _look_at_memory(self) -> None:
        limit, resident = self._memory_limit, self._meter.resident
        if limit is not None and resident > limit and not self._draining:
            log.error("over its memory limit: it drains", resident=resident, limit=limit)
            self._leaving = asyncio.create_task(self.stop(), name="taskyard-leave")

    @property
    def _draining(self) -> bool:
        return self._ending is not None

    def _may_begin(self, lease: Lease) -> bool:
        """Bodies of tasks that were claimed under this lease."""
        return lease == self.lease and self._membership.is_sure and not self._draining

    async def _leave(self) -> None:
        await self._quietly(self._membership.leave())

    def _drop_bells(self) -> None:
        self._notifier.drop(self._bell)
        self._notifier.drop(self._news_bell)

    async def _quietly(self, step: Awaitable[None]) -> None:
        try:
            await step
        except StoreError as error:
            log.error("store", error=str(error))

    # --- for the heartbeat's thread, the watchdog, and contexts ---

    def bodies(self) -> int:
        return len(self.hand.running)

    def overdue(self, now: float) -> str | None:
        for job in list(self.hand.running.values()):
            blocks = job.style is Style.COROUTINE
            if blocks and now > job.deadline + self._grace:
                return job.claimed.id
        return None

    def free_slots(self) -> int:
        return self.hand.room if self._pump.is_claiming else 0

    def last_taken(self, lane: str) -> float:
        return self.hand.last_taken.get(lane, 0.0)

    def serves(self, task: Task) -> bool:
        kinds, capabilities = frozenset(self._kinds), frozenset(self._capabilities)
        return may_serve(kinds, capabilities, task.kind, task.requires)

    @property
    def lease(self) -> Lease:
        """0 before its start."""
        return self._membership.lease if self._started else 0

    @property
    def steady_for(self) -> float:
        return self._membership.steady_for

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    async def dependencies(self, task_id: str) -> list[Ending]:
        return await dependencies(self._store, task_id)

    async def report(self, hold: Hold, progress: Progress) -> bool:
        return await self._store.report(hold, progress)

    async def checkpoint(self, hold: Hold, data: str) -> bool:
        return await self._store.checkpoint(hold, data)

    def keep_line(self, hold: Hold, level: Level, text: str) -> None:
        self._logs.add(hold, level, text)

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None) -> list[Enqueue]:
        through = tracing.tracer()
        if through is None:
            answers = await self._store.enqueue(tasks, by=by)
        else:
            save = partial(self._store.enqueue, by=by)
            answers = await tracing.enqueue(tasks, save, through)
        self._notifier.ring()
        journal.enqueued(tasks, answers)
        return answers

    def _names(self) -> list[str]:
        return [job.claimed.id for job in self.hand.running.values()]


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel it, unless it is done, and wait for its end."""
    task.cancel()
    await asyncio.wait((task,))
