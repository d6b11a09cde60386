"""The worker: one node that claims tasks, runs their bodies and writes what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from taskyard.domain.clock import LONGEST
from taskyard.domain.errors import InvalidOption, StoreError
from taskyard.domain.node import DEFAULT_LEASE_SECONDS, Hold, Lease, NewNode
from taskyard.domain.outcome import Died, Failed, Outcome, Snoozed, Verdict, decide
from taskyard.domain.retention import Retention
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.state import Reason
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress
from taskyard.engine.context import Context
from taskyard.engine.executor import CoroutineExecutor, ThreadExecutor
from taskyard.engine.hand import Hand
from taskyard.engine.identity import new_node_id, this_process
from taskyard.engine.isolate.executor import ProcessExecutor
from taskyard.engine.isolate.place import require_importable
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger
from taskyard.engine.maintenance.rescue import rescue_predecessors
from taskyard.engine.maintenance.upkeep import Upkeep
from taskyard.engine.membership import Membership, given_back
from taskyard.engine.notifier import Notifier
from taskyard.engine.pump import Pump
from taskyard.engine.registry import Registry, Style
from taskyard.engine.timekeeper import Timekeeper
from taskyard.store.port import Store

DEFAULT_SLOTS = 100
DEFAULT_GRACE = 30.0
PUT_OFF = 1.0
ASK_AGAIN = 1.0

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
        on_end: Callable[[Sequence[Verdict]], None] = lambda _: None,
    ) -> None:
        if slots < 1:
            raise InvalidOption(f"a worker needs at least 1 slot, not {slots}")
        if not 0 < lease_seconds <= LONGEST:
            raise InvalidOption(f"a lease lasts more than 0 seconds, not {lease_seconds:g}")
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
        self._tell_end = on_end
        self.hand = Hand(slots)
        self._started = False
        self._draining = False
        self._stopped = asyncio.Event()

    # --- life ---

    async def start(self) -> None:
        if self._started:
            return
        self._started = True
        try:
            await self._begin_life()
        except BaseException:
            self._started = False  # nothing runs that a stop would have to end
            raise

    async def _begin_life(self) -> None:
        await self._store.open()
        self._notifier.start()
        self._bell = self._notifier.bell()
        self._news_bell = self._notifier.bell()
        self._coroutines = CoroutineExecutor(self._done)
        self._threads = ThreadExecutor(self._done, asyncio.get_running_loop())
        self._processes = ProcessExecutor(
            self._done, self, self._losses, grace=self._grace, lease_seconds=self._lease_seconds
        )
        self._timekeeper = Timekeeper(self.hand.running, self._grace)
        self._pump = Pump(
            self._store,
            self.hand,
            self._bell,
            may_claim=lambda: self._membership.is_sure,
            on_claim=self._take,
            on_end=self._ended,
        )
        self._membership = Membership(
            self._store,
            self._node(),
            self.hand,
            self._pump,
            self._news_bell,
            watched=self,
            on_renewed=self._processes.renewed,
        )
        await rescue_predecessors(self._store)
        await self._membership.join()
        if any(self._registry[kind].style is Style.PROCESS for kind in self._kinds):
            self._processes.warm_up()
        self._upkeep = Upkeep(self._store, self._notifier, self, self._retention)
        self._pump.start(self.lease)
        self._upkeep.start()
        self._membership.start()
        log.info("start", node=self.node_id, lease=self.lease, slots=self.hand.slots)

    async def stop(self, grace: float | None = None) -> None:
        """Drain: claim nothing more, let bodies finish, then release what has not finished."""
        if not self._started:
            return
        if self._draining:
            await self._stopped.wait()
            return
        self._draining = True
        try:
            await self._end_life(self._grace if grace is None else grace)
        finally:
            self._stopped.set()

    async def _end_life(self, grace: float) -> None:
        self._membership.stop_joining()
        self._pump.stop_claiming()
        await self._quietly(self._store.drain(self.lease))
        self._pump.give_back_ahead()
        await self.hand.emptied(grace)
        for job in list(self.hand.running.values()):
            job.ask(Stop.DRAIN)
        await self.hand.emptied(min(5.0, self._grace))
        await self._processes.stop()
        if self.hand.running:
            log.error("bodies that do not stop are left behind", tasks=self._names())
        await self._upkeep.stop()
        await self._membership.stop()
        await self._pump.stop()
        self._timekeeper.stop()
        if not self.hand.running:
            # Bodies left behind keep their lease, and the heartbeat that ends the process before
            # they could outlive it: nobody may overlap them.
            await self._quietly(self._membership.leave())
            await self._coroutines.stop()
        self._threads.stop()
        self._notifier.drop(self._bell)
        self._notifier.drop(self._news_bell)
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

    async def run_until(self, stopped: asyncio.Event) -> None:
        await self.start()
        try:
            await stopped.wait()
        finally:
            await self.stop()

    async def _quietly(self, step: Awaitable[None]) -> None:
        try:
            await step
        except StoreError as error:
            log.error("store", error=str(error))

    # --- tasks come and go ---

    def _take(self, lease: Lease, tasks: list[Claimed], ahead: frozenset[int]) -> None:
        if lease != self.lease or not self._membership.is_sure or self._draining:
            # An answer that comes so late may be of attempts that others have by now, or that
            # nobody would wait for: no body must begin. Giving back is fenced: it harms nobody.
            for claimed in tasks:
                self._pump.add(given_back(claimed.hold))
            return
        loop = asyncio.get_running_loop()
        here = self.hand.numbers()
        for claimed in tasks:
            if claimed.no in here:
                self._take_again(claimed)
                continue
            kind = self._registry[claimed.kind]
            job = Job(claimed, kind, Context(claimed, self, log, loop))
            if claimed.no in ahead:
                self.hand.ahead.append(job)
            else:
                self._begin(job)
        self._fill()

    def _take_again(self, claimed: Claimed) -> None:
        """A store that lost its last writes gives out anew what is in our hands already.

        If it is the same attempt, that one goes on and the store knows of it again. Beside the
        body of any other no new one may begin: the task waits until that body has gone.
        """
        job = self.hand.running.get(claimed.no)
        gone = job is not None and job.stop is Stop.LOST
        if gone or not self.hand.knows(claimed.hold):
            log.warning("put off: another attempt is still here", task=claimed.id)
            self._pump.add(_put_off(claimed))

    def _begin(self, job: Job) -> None:
        job.begin()
        self.hand.took(job)
        self._timekeeper.watch(job)
        match job.kind.style:
            case Style.COROUTINE:
                self._coroutines.start(job)
            case Style.THREAD:
                self._threads.start(job)
            case Style.PROCESS:
                self._processes.start(job)

    def _fill(self) -> None:
        while (job := self.hand.next_ahead()) is not None:
            self.hand.unmarked[job.claimed.no] = job
            self._begin(job)

    def _done(self, job: Job, outcome: Outcome) -> None:
        self.hand.ended(job)
        if isinstance(outcome, Failed | Died):
            log.warning(
                "failed",
                task=job.claimed.id,
                kind=job.kind.name,
                attempt=job.claimed.attempt,
                reason=outcome.reason if isinstance(outcome, Failed) else Reason.LOST,
                error=f"{outcome.error.type}: {outcome.error.message}",
            )
        if job.stop is not Stop.LOST:
            self._pump.add(decide(job.claimed, outcome, job.kind.retry))
        self._fill()

    async def _losses(self, job: Job) -> int:
        """How often this task was lost before; asked only when it has been lost again.

        It cannot change while the attempt is ours, and claims need not carry it for every task.
        """
        while job.stop is not Stop.LOST:
            try:
                task = await self._store.get(job.claimed.id)
            except StoreError as error:
                log.error("store", error=str(error))
                await asyncio.sleep(ASK_AGAIN)
            else:
                return 0 if task is None else task.losses
        return 0

    def _ended(self, verdicts: list[Verdict]) -> None:
        self._tell_end(verdicts)

    # --- for the heartbeat's thread, and for contexts ---

    def bodies(self) -> int:
        return len(self.hand.running)

    def overdue(self, now: float) -> str | None:
        for job in list(self.hand.running.values()):
            blocks = job.kind.style is Style.COROUTINE
            if blocks and now > job.deadline + self._grace:
                return job.claimed.id
        return None

    @property
    def lease(self) -> Lease:
        return self._membership.lease

    @property
    def steady_for(self) -> float:
        return self._membership.steady_for

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    async def report(self, hold: Hold, progress: Progress) -> bool:
        return await self._store.report(hold, progress)

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None) -> list[Enqueue]:
        answer = await self._store.enqueue(tasks, by=by)
        self._notifier.ring()
        return answer

    def _names(self) -> list[str]:
        return [job.claimed.id for job in self.hand.running.values()]


def _put_off(claimed: Claimed) -> Verdict:
    return decide(claimed, Snoozed(PUT_OFF), RetryPolicy())
