"""Lines that bodies have said and that are not stored yet."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from taskyard.domain.errors import StoreError
from taskyard.domain.logs import PAGE_LINES, AttemptLog, Level, LogPage
from taskyard.domain.node import Hold
from taskyard.domain.outcome import Verdict
from taskyard.engine.log import logger
from taskyard.store.port import Store

EVERY = 0.5  # seconds from a line to the store, about
AGAIN = 5.0  # and when the store could not take it

log = logger("logs")


class LogBook:
    """Bodies only add to it, from any thread. Lines are stored together, some moments later, and
    before the end of their attempt is. While nothing is said, nothing is done.

    A store that takes no lines holds nobody up: an attempt that ends then loses what is not stored.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._owner = os.getpid()
        self._logs: dict[Hold, AttemptLog] = {}
        self._ended: set[Hold] = set()  # of these, attempts whose end is to be stored
        self._adding = threading.RLock()
        self._storing = asyncio.Lock()
        self._said = asyncio.Event()
        self._is_called = False  # the loop knows that there is something
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- for bodies ---

    def add(self, hold: Hold, level: Level, text: str) -> None:
        """Nothing in a process that a body has forked: the lock may be held there for ever."""
        if os.getpid() != self._owner:
            return
        with self._adding:
            said = self._logs.get(hold)
            if said is None:
                said = self._logs[hold] = AttemptLog()
            said.add(level, text, self._clock())
            if self._is_called:
                return
            self._is_called = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody stores it any more
            self._loop.call_soon_threadsafe(self._said.set)

    # --- for the worker ---

    @property
    def is_empty(self) -> bool:
        """Whether no attempt that is here has said anything."""
        return not self._logs

    @property
    def has_ended(self) -> bool:
        """Whether lines of attempts whose end is to be stored are not stored yet."""
        return bool(self._ended)

    def ended(self, hold: Hold) -> None:
        """Nothing more is said by this attempt."""
        with self._adding:
            said = self._logs.get(hold)
            if said is None:
                return
            if said.is_stored:
                del self._logs[hold]
            else:
                self._ended.add(hold)

    def forget(self, holds: Sequence[Hold]) -> None:
        """Their ends are stored, or others have them now: no line of theirs would be taken."""
        with self._adding:
            for hold in holds:
                self._logs.pop(hold, None)
                self._ended.discard(hold)

    def forget_ended(self, verdicts: Sequence[Verdict]) -> None:
        self.forget([Hold(verdict.no, verdict.attempt, verdict.lease) for verdict in verdicts])

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._main(), name="taskyard-logs")

    async def stop(self) -> None:
        """Store the rest."""
        self._stopping.set()
        self._said.set()
        if self._task is not None:
            await self._task
            self._task = None

    # --- storing ---

    async def _main(self) -> None:
        rest = EVERY
        while not self._stopping.is_set():
            await self._said.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._stopping.wait()
            self._said.clear()
            self._is_called = False  # before the look: what is said meanwhile calls again
            rest = EVERY
            if not await self._stored(self._logs):
                self._said.set()
                rest = AGAIN
        await self.flush()  # what was said while the last ones were being stored

    async def settle(self) -> None:
        """Store what attempts have said whose end is to be stored next."""
        await self._stored(self._ended)

    async def flush(self) -> None:
        """Store what there is."""
        await self._stored(self._logs)

    async def _stored(self, holds: dict[Hold, AttemptLog] | set[Hold]) -> bool:
        """False if the store took nothing; what it did not take is tried again."""
        async with self._storing:
            with self._adding:
                wanted = list(holds)
            for pages in self._portions(wanted):
                try:
                    answers = await self._store.append_logs(pages)
                except StoreError as error:
                    log.warning("logs", error=str(error), attempts=len(pages))
                    return False
                except Exception:
                    # No store will ever take these: they are missing, and the next ones count on.
                    log.exception("logs")
                    answers = [True] * len(pages)
                for page, taken in zip(pages, answers, strict=True):
                    self._settled(page, taken)
        return True

    def _portions(self, holds: Sequence[Hold]) -> Iterator[list[LogPage]]:
        """As many lines at a time as one attempt may have, about."""
        pages, lines = list[LogPage](), 0
        for hold in holds:
            with self._adding:
                said = self._logs.get(hold)
                if said is None or said.is_stored:
                    continue
                page = said.page(hold, self._clock())
            if pages and lines + len(page.lines) > PAGE_LINES:
                yield pages
                pages, lines = [], 0
            pages.append(page)
            lines += len(page.lines)
        if pages:
            yield pages

    def _settled(self, page: LogPage, taken: bool) -> None:
        """Done with; or refused, for the attempt is over."""
        with self._adding:
            said = self._logs.get(page.hold)
            if said is None:
                return
            said.stored(page)
            if not taken or (page.hold in self._ended and said.is_stored):
                del self._logs[page.hold]
                self._ended.discard(page.hold)
