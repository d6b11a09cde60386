"""Keeps the lease alive from a thread of its own, and watches the event loop.

The thread needs nothing of the loop, so a loop that is blocked for a while loses no lease. It is
also the one who can still act when the loop cannot: it ends the process when a body blocks the
loop beyond its timeout, or when bodies could outlive the lease.
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
        self._on_renewed = on_renewed  # called in the thread, with `renewed`
        self._measure = measure  # called in the thread
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._gone = asyncio.Event()
        # The lease holds at least until renewed + ttl: counted from before it was asked for.
        self.renewed = lease_time() if since is None else since
        self.steady_since = self.renewed  # unbroken contact with the store since then
        self._pulse = time.monotonic()
        self._pulse_asked = False
        self._endangered: float | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._main, name="taskyard-heartbeat", daemon=True
            )
            self._thread.start()

    async def stop(self) -> None:
        """Not by joining in the loop's pool, which bodies may have filled."""
        self._stopping.set()
        if self._thread is not None:
            await self._gone.wait()
            self._thread = None

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

    def _main(self) -> None:
        every = self._ttl / 3
        due = lease_time() + every
        tick = min(1.0, self._ttl / 10)
        while not self._stopping.wait(tick):
            try:
                now = lease_time()
                if now >= due:
                    due = now + (every if self._beat(now) else tick)
                self._watch_loop(time.monotonic())
                self._watch_lease(lease_time())
            except Exception:
                log.exception("heartbeat")  # without this thread nobody stops bodies in time
        self._tell(self._gone.set)

    def _beat(self, now: float) -> bool:
        """Renew. Counts from before the call: the store's clock started no earlier."""
        try:
            usage = self._measure()
            news = self._store.beat(self._lease, timeout=self._patience(now), usage=usage)
        except Exception as error:
            log.warning("beat failed", lease=self._lease, error=str(error))
            self.steady_since = lease_time()
            return False
        if not news.lost:
            if now - self.renewed > self._ttl:
                self.steady_since = lease_time()
            self.renewed = now
            self._endangered = None
            self._on_renewed(now)
        self._tell(self._on_news, news)
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
            self._stopping.set()  # the loop is closed

    def _watch_loop(self, now: float) -> None:
        if not self._pulse_asked:
            self._pulse_asked = True
            self._tell(self._answer)
            return
        overdue = self._watched.overdue(now) if now - self._pulse > self._ttl / 10 + 1 else None
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
        left = self.renewed + self._ttl - now
        if left < self._ttl / 3 and self._endangered is None:
            self._endangered = now
            log.error("the lease cannot be renewed: stopping its bodies", lease=self._lease)
            self._tell(self._on_danger)
        # A process that was frozen finds its lease ended at once: its bodies get a moment.
        warned = self._endangered is not None and now - self._endangered > self._ttl / 6
        if left < self._ttl / 10 and warned and self._watched.bodies() > 0:
            log.critical(
                "the lease ends and bodies are still running: leaving", stack=self._stack()
            )
            self._leave(EXIT_LEASE_ENDED)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        return "".join(traceback.format_stack(frame)) if frame is not None else "(none)"
