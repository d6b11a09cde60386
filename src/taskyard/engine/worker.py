"""The worker: one node that claims tasks, runs their bodies and writes what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from taskyard.domain.clock import LONGEST
from taskyard.domain.errors import InvalidOption, StoreError
from taskyard.domain.node import DEFAULT_LEASE_SECONDS, Hold, Lease, NewNode, News
from taskyard.domain.outcome import Died, Failed, Outcome, Released, Snoozed, Verdict, decide
from taskyard.domain.retention import Retention
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress
from taskyard.engine.context import Context
from taskyard.engine.executor import CoroutineExecutor, ThreadExecutor
from taskyard.engine.hand import Hand
from taskyard.engine.heartbeat import Heartbeat, lease_time
from taskyard.engine.identity import new_node_id, this_process
from taskyard.engine.isolate.executor import ProcessExecutor
from taskyard.engine.isolate.place import require_importable
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger
from taskyard.engine.maintenance.rescue import rescue_predecessors
from taskyard.engine.maintenance.upkeep import Upkeep
from taskyard.engine.notifier import Notifier
from taskyard.engine.pump import Pump
from taskyard.engine.registry import Registry, Style
from taskyard.engine.timekeeper import Timekeeper
from taskyard.store.port import Store

DEFAULT_SLOTS = 100
DEFAULT_GRACE = 30.0
NEWS_EVERY = 0.1
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
        self.lease: Lease = 0
        self.hand = Hand(slots)
        self._orphans: frozenset[Hold] = frozenset()
        self._has_beaten = False
        self._started = False
        self._draining = False
        self._endangering = False
        self._emptied = asyncio.Event()
        self._stopped = asyncio.Event()
        self._rejoining: asyncio.Task[None] | None = None

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
            may_claim=lambda: self._is_sure,
            on_claim=self._take,
            on_end=self._ended,
        )
        await rescue_predecessors(self._store)
        await self._join()
        if any(self._registry[kind].style is Style.PROCESS for kind in self._kinds):
            self._processes.warm_up()
        self._upkeep = Upkeep(self._store, self._notifier, self, self._retention)
        self._pump.start(self.lease)
        self._upkeep.start()
        self._newsreader = asyncio.create_task(self._read_news(), name="taskyard-news")
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
        self._pump.stop_claiming()
        await self._quietly(self._store.drain(self.lease))
        self._give_back_ahead()
        await self._wait_for_bodies(grace)
        for job in list(self.hand.running.values()):
            job.ask(Stop.DRAIN)
        await self._wait_for_bodies(min(5.0, self._grace))
        await self._processes.stop()
        if self.hand.running:
            log.error("bodies that do not stop are left behind", tasks=self._names())
        await self._upkeep.stop()
        self._newsreader.cancel()
        if self._rejoining is not None:
            self._rejoining.cancel()
        await asyncio.gather(self._newsreader, return_exceptions=True)
        await self._pump.stop()
        self._timekeeper.stop()
        if not self.hand.running:
            # Bodies left behind keep their lease, and the heartbeat that ends the process before
            # they could outlive it: nobody may overlap them.
            await self._heartbeat.stop()
            await self._quietly(self._store.retire(self.lease))
            await self._coroutines.stop()
        self._threads.stop()
        self._notifier.drop(self._bell)
        self._notifier.drop(self._news_bell)
        log.info("stop", node=self.node_id, left=len(self.hand.running))

    async def run_until(self, stopped: asyncio.Event) -> None:
        await self.start()
        try:
            await stopped.wait()
        finally:
            await self.stop()

    async def _join(self) -> None:
        asked = lease_time()
        self.lease = await self._store.register(
            NewNode(
                id=self.node_id,
                kinds=self._kinds,
                capabilities=self._capabilities,
                slots=self.hand.slots,
                process=this_process(),
                lease_seconds=self._lease_seconds,
            )
        )
        self._endangering = False
        self._processes.renewed(asked)
        self._heartbeat = Heartbeat(
            self._store,
            self.lease,
            self._lease_seconds,
            self,
            on_news=self._hear_beat,
            on_danger=self._endangered,
            on_renewed=self._processes.renewed,
            since=asked,
        )
        self._heartbeat.start()

    @property
    def _is_sure(self) -> bool:
        """Whether a body that starts now may run on: the lease holds and is being renewed."""
        return self._heartbeat.holds and not self._endangering

    async def _quietly(self, step: Awaitable[None]) -> None:
        try:
            await step
        except StoreError as error:
            log.error("store", error=str(error))

    async def _wait_for_bodies(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.hand.running and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            try:
                async with asyncio.timeout(left):
                    await self._emptied.wait()
            except TimeoutError:
                return

    # --- tasks come and go ---

    def _take(self, lease: Lease, tasks: list[Claimed], ahead: frozenset[int]) -> None:
        if lease != self.lease or not self._is_sure or self._draining:
            # An answer that comes so late may be of attempts that others have by now, or that
            # nobody would wait for: no body must begin. Giving back is fenced: it harms nobody.
            for claimed in tasks:
                self._pump.add(_given_back(claimed.hold))
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
        if not self.hand.running:
            self._emptied.set()

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

    def _give_back_ahead(self) -> None:
        while self.hand.ahead:
            job = self.hand.ahead.popleft()
            self._pump.add(decide(job.claimed, Released(), job.kind.retry))

    # --- news ---

    async def _read_news(self) -> None:
        """Cancel reaches a running body with the hint, not only with the next beat."""
        while True:
            if not await self._news_bell.wait():
                continue
            lease = self.lease
            try:
                if self.hand.running:
                    news = await self._store.news(lease)
                    if lease == self.lease:  # not of one that was replaced meanwhile
                        self._hear(news)
                if self._has_beaten:
                    self._has_beaten = False
                    await self._compare(lease)
            except Exception as error:
                log.warning("news", error=str(error))
            await asyncio.sleep(NEWS_EVERY)

    def _hear_beat(self, news: News) -> None:
        """Only a beat renews: news that were merely read say nothing about the lease."""
        if self._endangering and not news.lost:
            self._endangering = False
            self._pump.hint()
        self._hear(news)
        self._has_beaten = True
        self._news_bell.ring()

    def _hear(self, news: News) -> None:
        if news.lost:
            self._lost()
            return
        for ask in news.asks:
            job = self.hand.running.get(ask.no)
            if job is not None and job.claimed.attempt == ask.attempt and job.stop is None:
                job.ask(Stop.CANCEL)

    async def _compare(self, lease: Lease) -> None:
        """As often as it beats, a worker compares what it runs with what the store thinks."""
        asked = time.monotonic()
        held = frozenset(await self._store.holds(lease))
        if lease == self.lease:
            self._reconcile(held, asked)

    def _reconcile(self, held: frozenset[Hold], asked: float) -> None:
        """`asked` is when the question was sent: what was claimed later is not in the answer."""
        for job in list(self.hand.running.values()):
            if job.claimed.hold not in held and job.taken < asked and job.stop is not Stop.LOST:
                log.warning("attempt lost", task=job.claimed.id, attempt=job.claimed.attempt)
                job.ask(Stop.LOST)
        # While an answer is on its way to us, what it brings is not lost; a loop that was blocked
        # hears many beats before it.
        if self._pump.in_doubt:
            self._orphans = frozenset()
            return
        # Twice unknown: not one that ended between the question and now.
        unknown = frozenset(hold for hold in held if not self.hand.knows(hold))
        for hold in unknown & self._orphans:
            log.warning("a claim whose answer was lost is given back", no=hold.no)
            self._pump.add(_given_back(hold))
        self._orphans = unknown - self._orphans

    def _endangered(self) -> None:
        """The lease cannot be renewed: whatever runs must end before it does."""
        self._endangering = True
        self._give_back_ahead()
        for job in list(self.hand.running.values()):
            job.ask(Stop.DRAIN)

    def _lost(self) -> None:
        """Others have our tasks now. Nothing of theirs is ours to write; begin anew."""
        log.error("lease lost", node=self.node_id, lease=self.lease)
        for job in list(self.hand.running.values()):
            job.ask(Stop.LOST)
        self.hand.ahead.clear()
        self.hand.verdicts.clear()
        if self._rejoining is None and not self._draining:
            self._rejoining = asyncio.create_task(self._rejoin(), name="taskyard-rejoin")

    async def _rejoin(self) -> None:
        """Register again, for as long as it takes: a worker without a lease is no worker.

        Not beside bodies of the lost lease: we might be given their tasks. The heartbeat goes on
        until they are gone, and ends the process if they do not go.
        """
        while self.hand.running:
            await self._wait_for_bodies(self._lease_seconds)
        await self._heartbeat.stop()
        while True:
            try:
                await self._join()
                break
            except Exception as error:
                log.error("register", error=str(error))
                await asyncio.sleep(1.0)
        self._pump.renew(self.lease)
        self._pump.hint()
        self._rejoining = None

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
    def steady_for(self) -> float:
        return self._heartbeat.steady_for

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


def _given_back(hold: Hold) -> Verdict:
    return Verdict(
        no=hold.no,
        id=f"no:{hold.no}",
        attempt=hold.attempt,
        lease=hold.lease,
        state=State.QUEUED,
        reason=Reason.RELEASED,
        keeps_place=True,
    )


def _put_off(claimed: Claimed) -> Verdict:
    return decide(claimed, Snoozed(PUT_OFF), RetryPolicy())
