"""Keeps the lease alive from a thread of its own; another one watches the lease and the loop.

The threads need nothing of the loop, so a loop that is blocked for a while loses no lease. The one
that watches can still act when the loop cannot: it ends the process when a body blocks the loop
beyond its timeout, or when bodies could outlive the lease. It waits for no store: a beat that hangs
does not hold it up.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Protocol

from taskyard.domain.node import Lease, News, Usage
from taskyard.engine.log import logger
from taskyard.store.port import Store

EXIT_LOOP_BLOCKED = 70
EXIT_LEASE_ENDED = 75

LONG_BLOCKED = 3.0  # seconds, however long the lease is

log = logger("heartbeat")

# Leases go on while the machine sleeps, and so does this clock where there is one.
_LEASE_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_time() -> float:
    return time.clock_gettime(_LEASE_CLOCK)


class Watched(Protocol):
    """What the thread asks of the worker, without the loop."""

    def bodies(self) -> int:
        """How many bodies are running."""

    def overdue(self, now: float) -> str | None:
        """A body that blocks the loop beyond its timeout and grace, if there is one."""


class Heartbeat:
    def __init__(
        self,
        store: Store,
        lease: Lease,
        lease_seconds: float,
        watched: Watched,
        *,
        on_news: Callable[[News], None],
        on_danger: Callable[[], None],
        on_renewed: Callable[[float], None] = lambda _: None,
        measure: Callable[[], Usage | None] = lambda: None,
        since: float | None = None,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self._store = store
        self._lease = lease
        self._ttl = lease_seconds
        self._watched = watched
        self._on_news = on_news
        self._on_danger = on_danger
        self._on_renewed = on_renewed  # called in the thread that beats, with `renewed`
        self._measure = measure  # called there too
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._go = threading.Event()  # it is time to beat
        self._threads: list[threading.Thread] = []
        self._beats_ended = asyncio.Event()
        self._judging = threading.Lock()  # whether the lease is in danger, and who is told so
        # The lease holds at least until renewed + ttl: counted from before it was asked for.
        self.renewed = lease_time() if since is None else since
        self.steady_since = self.renewed  # unbroken contact with the store since then
        self._pulse = time.monotonic()
        self._pulse_asked = False
        self._endangered: float | None = None
        # The first one comes early: the connection that beats have for themselves is made then.
        self._beat_due = lease_time() + self._tick

    def start(self) -> None:
        if self._threads:
            return
        for work, name in ((self._watch, "watch"), (self._beat_on, "heartbeat")):
            thread = threading.Thread(target=work, name=f"taskyard-{name}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there can be no more threads
                self._end()
                raise
            self._threads.append(thread)

    async def stop(self) -> None:
        """Not by joining in the loop's pool, which bodies may have filled."""
        self._end()
        if not self._threads:
            return
        try:
            async with asyncio.timeout(self._ttl / 3):  # twice as long as a beat may take
                await self._beats_ended.wait()
        except TimeoutError:
            log.error("a beat does not end: it is left behind", lease=self._lease)
        self._threads.clear()

    def _end(self) -> None:
        self._stopping.set()
        self._go.set()

    @property
    def holds(self) -> bool:
        """Whether the lease has not ended by our own clock."""
        return lease_time() - self.renewed < self._ttl

    @property
    def steady_for(self) -> float:
        """Seconds of unbroken contact with the store.

        A process that was frozen for a lease has had none, whatever it remembers: others may have
        been frozen with it (a paused container, a sleeping laptop) and not have beaten yet.
        """
        now = lease_time()
        return 0.0 if now - self.renewed > self._ttl else now - self.steady_since

    # --- beating ---

    def _beat_on(self) -> None:
        """Beat whenever the other thread says so."""
        while True:
            self._go.wait()
            self._go.clear()
            if self._stopping.is_set():
                break
            now, renewed = lease_time(), False
            try:
                renewed = self._beat(now)
            except Exception:
                log.exception("heartbeat")  # without this thread the lease ends
            self._beat_due = now + (self._ttl / 3 if renewed else self._tick)
        self._tell(self._beats_ended.set)

    @property
    def _tick(self) -> float:
        return min(1.0, self._ttl / 10)

    def _beat(self, now: float) -> bool:
        """Renew. Counts from before the call: the store's clock started no earlier."""
        try:
            usage = self._measure()
            news = self._store.beat(self._lease, timeout=self._patience(now), usage=usage)
        except Exception as error:
            log.warning("beat failed", lease=self._lease, error=str(error))
            self.steady_since = lease_time()
            return False
        if self._stopping.is_set():
            return True  # nobody is here any more who would want to know
        with self._judging:
            if not news.lost:
                if now - self.renewed > self._ttl:
                    self.steady_since = lease_time()
                self.renewed = now
                self._endangered = None
            self._tell(self._on_news, news)
        if not news.lost:
            self._on_renewed(now)
        return True

    def _patience(self, now: float) -> float:
        """No beat is waited for past the moment when bodies have to be gone."""
        left = self.renewed + self._ttl - now
        if left <= 0:
            return self._ttl / 6  # we were frozen: it is too late anyway, and news matter more
        return max(self._ttl / 20, min(self._ttl / 6, left - self._ttl / 10))

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            self._end()  # the loop is closed

    # --- watching ---

    def _watch(self) -> None:
        """By short waits: while the machine sleeps, the lease goes on and a wait does not."""
        while not self._stopping.wait(planned := self._until_next_look(looked := lease_time())):
            if lease_time() >= self._beat_due:
                self._beat_due = float("inf")  # until this beat is over
                self._go.set()
            if lease_time() - looked > planned + self._ttl / 10:
                # The process was frozen. Its lease may be alive still: the beat goes first.
                self._stopping.wait(min(self._ttl / 20, 0.5))
            try:
                self._watch_loop(time.monotonic())
                self._watch_lease(lease_time())
            except Exception:
                log.exception("watch")  # without this thread nobody stops bodies in time

    def _until_next_look(self, now: float) -> float:
        """Seconds: a tick, or less if there is something to do before."""
        ends = self.renewed + self._ttl
        moments = (self._beat_due, ends - self._ttl / 3, ends - self._ttl / 10)
        coming = (moment - now for moment in moments if moment > now)
        return min((self._tick, *coming))

    def _watch_loop(self, now: float) -> None:
        if not self._pulse_asked:
            self._pulse_asked = True
            self._tell(self._answer)
            return
        blocked = now - self._pulse > min(self._ttl / 10, LONG_BLOCKED) + 1
        overdue = self._watched.overdue(now) if blocked else None
        if overdue is not None:
            log.critical(
                "the event loop is blocked beyond a task's timeout",
                task=overdue,
                blocked_seconds=round(now - self._pulse, 1),
                stack=self._stack(),
            )
            self._leave(EXIT_LOOP_BLOCKED)

    def _answer(self) -> None:
        """Runs on the loop: it is alive."""
        self._pulse = time.monotonic()
        self._pulse_asked = False

    def _watch_lease(self, now: float) -> None:
        """Bodies must not outlive the lease: first they are stopped, then the process is."""
        with self._judging:
            left = self.renewed + self._ttl - now
            if left <= self._ttl / 3 and self._endangered is None:
                self._endangered = now
                log.error("the lease cannot be renewed: stopping its bodies", lease=self._lease)
                self._tell(self._on_danger)
            # A process that was frozen finds its lease ended at once: its bodies get a moment.
            warned = self._endangered is not None and now - self._endangered > self._ttl / 6
        if left <= self._ttl / 10 and warned and self._watched.bodies() > 0:
            log.critical(
                "the lease ends and bodies are still running: leaving", stack=self._stack()
            )
            self._leave(EXIT_LEASE_ENDED)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        return "".join(traceback.format_stack(frame)) if frame is not None else "(none)"
