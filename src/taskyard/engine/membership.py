"""What binds a worker to its store: a lease, the beats that keep it, and the news they bring."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from taskyard.domain.node import Ask, Hold, Lease, NewNode, News, Usage
from taskyard.domain.outcome import Verdict
from taskyard.domain.state import Reason, State
from taskyard.engine.hand import Hand
from taskyard.engine.heartbeat import Heartbeat, Watched, lease_time
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger
from taskyard.engine.notifier import Bell
from taskyard.engine.pausing import Pauses
from taskyard.engine.pump import Pump
from taskyard.store.port import Store

NEWS_EVERY = 0.1
REGISTER_AGAIN = 1.0

log = logger("worker")


class Membership:
    """From the first lease of a worker to its last; a lease that is lost is followed by another."""

    def __init__(
        self,
        store: Store,
        node: NewNode,
        hand: Hand,
        pump: Pump,
        bell: Bell,
        *,
        pauses: Pauses,
        watched: Watched,
        on_renewed: Callable[[float], None],
        on_beat: Callable[[], None],
        measure: Callable[[], Usage | None],
    ) -> None:
        self._store = store
        self._node = node
        self._hand = hand
        self._pump = pump
        self._pauses = pauses
        self._bell = bell
        self._watched = watched
        self._on_renewed = on_renewed
        self._on_beat = on_beat
        self._measure = measure
        self.lease: Lease = 0
        self._orphans: frozenset[Hold] = frozenset()
        self._has_beaten = False
        self._endangering = False
        self._leaving = False
        self._newsreader: asyncio.Task[None] | None = None
        self._rejoining: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Become a node of the store, under a new lease."""
        asked = lease_time()
        self.lease = await self._store.register(self._node)
        self._endangering = False
        self._on_renewed(asked)
        self._heartbeat = Heartbeat(
            self._store,
            self.lease,
            self._node.lease_seconds,
            self._watched,
            on_news=self.hear_beat,
            on_danger=self.endangered,
            on_renewed=self._on_renewed,
            measure=self._measure,
            since=asked,
        )
        self._heartbeat.start()

    def start(self) -> None:
        """Listen."""
        self._newsreader = asyncio.create_task(self._read_news(), name="taskyard-news")

    def stop_joining(self) -> None:
        """A lease that is lost from now on is not followed by another."""
        self._leaving = True

    async def stop(self) -> None:
        """Hear nothing more; the lease goes on."""
        if self._rejoining is not None:
            self._rejoining.cancel()
        if self._newsreader is not None:
            self._newsreader.cancel()
            await asyncio.gather(self._newsreader, return_exceptions=True)

    async def leave(self) -> None:
        """End the lease: what is left under it goes back."""
        await self._heartbeat.stop()
        await self._store.retire(self.lease)

    @property
    def is_sure(self) -> bool:
        """Whether a body that starts now may run on: the lease holds and is being renewed."""
        return self._heartbeat.holds and not self._endangering

    @property
    def steady_for(self) -> float:
        return self._heartbeat.steady_for

    # --- news ---

    async def _read_news(self) -> None:
        """Cancel and pause reach a running body with the hint, not only with the next beat."""
        while True:
            if not await self._bell.wait():
                continue
            lease = self.lease
            try:
                if self._hand.running:
                    news = await self._store.news(lease)
                    if lease == self.lease:  # not of one that was replaced meanwhile
                        self.hear(news)
                if self._has_beaten:
                    self._has_beaten = False
                    await self._compare(lease)
            except Exception as error:
                log.warning("news", error=str(error))
            await asyncio.sleep(NEWS_EVERY)

    def hear_beat(self, news: News) -> None:
        """Only a beat renews: news that were merely read say nothing about the lease."""
        if self._endangering and not news.lost:
            self._endangering = False
            self._pump.hint()
        self.hear(news)
        self._has_beaten = True
        self._bell.ring()
        self._on_beat()

    def hear(self, news: News) -> None:
        if news.lost:
            self._lost()
            return
        for job in self._asked(news.asks, "cancel"):
            if job.stop is None:
                job.ask(Stop.CANCEL)
        self._pauses.heed(self._asked(news.asks, "pause"))

    def _asked(self, asks: Sequence[Ask], what: str) -> list[Job]:
        """Of these, the bodies that are here."""
        jobs = ((self._hand.running.get(ask.no), ask) for ask in asks if ask.what == what)
        return [job for job, ask in jobs if job and job.claimed.attempt == ask.attempt]

    async def _compare(self, lease: Lease) -> None:
        """As often as it beats, a worker compares what it runs with what the store thinks."""
        asked = time.monotonic()
        held = frozenset(await self._store.holds(lease))
        if lease == self.lease:
            self._reconcile(held, asked)

    def _reconcile(self, held: frozenset[Hold], asked: float) -> None:
        """`asked` is when the question was sent: what was claimed later is not in the answer."""
        for job in list(self._hand.running.values()):
            if job.claimed.hold not in held and job.taken < asked and job.stop is not Stop.LOST:
                log.warning("attempt lost", task=job.claimed.id, attempt=job.claimed.attempt)
                job.ask(Stop.LOST)
        # While an answer is on its way to us, what it brings is not lost; a loop that was blocked
        # hears many beats before it.
        if self._pump.in_doubt:
            self._orphans = frozenset()
            return
        # Twice unknown: not one that ended between the question and now.
        unknown = frozenset(hold for hold in held if not self._hand.knows(hold))
        for hold in unknown & self._orphans:
            log.warning("a claim whose answer was lost is given back", no=hold.no)
            self._pump.add(given_back(hold))
        self._orphans = unknown - self._orphans

    # --- a lease that cannot be kept ---

    def endangered(self) -> None:
        """The lease cannot be renewed: whatever runs must end before it does."""
        self._endangering = True
        self._pump.give_back_ahead()
        for job in list(self._hand.running.values()):
            job.ask(Stop.DRAIN)

    def _lost(self) -> None:
        """Others have our tasks now. Nothing of theirs is ours to write; begin anew."""
        log.error("lease lost", node=self._node.id, lease=self.lease)
        for job in list(self._hand.running.values()):
            job.ask(Stop.LOST)
        self._hand.ahead.clear()
        self._hand.verdicts.clear()
        if self._rejoining is None and not self._leaving:
            self._rejoining = asyncio.create_task(self._rejoin(), name="taskyard-rejoin")

    async def _rejoin(self) -> None:
        """Register again, for as long as it takes: a worker without a lease is no worker.

        Not beside bodies of the lost lease: we might be given their tasks. The heartbeat goes on
        until they are gone, and ends the process if they do not go.
        """
        while self._hand.running:
            await self._hand.emptied(self._node.lease_seconds)
        await self._heartbeat.stop()
        while True:
            try:
                await self.join()
                break
            except Exception as error:
                log.error("register", error=str(error))
                await asyncio.sleep(REGISTER_AGAIN)
        self._pump.renew(self.lease)
        self._pump.hint()
        self._rejoining = None


def given_back(hold: Hold) -> Verdict:
    """Of an attempt of which nothing else is known."""
    return Verdict(
        no=hold.no,
        id=f"no:{hold.no}",
        attempt=hold.attempt,
        lease=hold.lease,
        state=State.QUEUED,
        reason=Reason.RELEASED,
        keeps_place=True,
    )
