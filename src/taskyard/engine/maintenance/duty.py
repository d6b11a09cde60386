"""A duty: done by every worker and server, by exactly one of them at a time."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Protocol

from taskyard.domain.errors import StoreError
from taskyard.domain.node import Lease
from taskyard.engine.log import logger
from taskyard.engine.notifier import Notifier
from taskyard.store.port import Store

log = logger("upkeep")

COALESCE = 0.02  # seconds: a busy file rings at every commit
ASK_SECONDS = 5.0  # a fleet has many who do not hold a duty, and each of them asks


class Steward(Protocol):
    """The worker or server that does the duty."""

    @property
    def lease(self) -> Lease: ...

    @property
    def lease_seconds(self) -> float: ...

    @property
    def steady_for(self) -> float: ...


class Shift:
    """One of those who do the same duties asks for them; the others ask for this alone.

    It is a leased row like that of a duty. A program with other duties has another shift, so none
    is left undone while an older release runs beside a newer one.
    """

    def __init__(self, store: Store, steward: Steward, duties: Iterable[str]) -> None:
        self._store = store
        self._steward = steward
        self._name = f"shift: {', '.join(sorted(duties))}"
        self._mine = False
        self._ask_at = 0.0
        self._asking = asyncio.Lock()

    async def is_mine(self) -> bool:
        async with self._asking:
            now = time.monotonic()
            if now >= self._ask_at:
                term = self._steward.lease_seconds
                self._mine = await self._store.take_duty(self._name, self._steward.lease, term)
                self._ask_at = now + (term / 2 if self._mine else min(ASK_SECONDS, term / 6))
            return self._mine


class Duty(ABC):
    """Takes its leased row, then performs again and again until it is stopped or loses it."""

    name: ClassVar[str]
    idle_seconds: ClassVar[float] = 5.0
    heeds_hints: ClassVar[bool] = False

    def __init__(self, store: Store, notifier: Notifier, steward: Steward) -> None:
        self.store = store
        self.steward = steward
        self.shift: Shift | None = None  # None: this duty is asked for by itself
        self._notifier = notifier
        self._bell = notifier.bell()
        self._task: asyncio.Task[None] | None = None
        self._held_until = 0.0

    @abstractmethod
    async def perform(self) -> float | None:
        """Do it once; says in how many seconds there is more to do, if it knows."""

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._main(), name=f"taskyard-{self.name}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self._notifier.drop(self._bell)

    async def _main(self) -> None:
        while True:
            pause: float | None = None
            try:
                if not await self._is_mine():
                    await asyncio.sleep(self._until_asked_again)
                    continue
                pause = await self.perform()
            except StoreError as error:
                log.warning("duty failed", duty=self.name, error=str(error))
            except Exception:
                log.exception("duty failed", duty=self.name)
            await self._rest(self.idle_seconds if pause is None else pause)

    @property
    def _term(self) -> float:
        """For how many seconds the duty is taken at a time."""
        return max(self.steward.lease_seconds, 3 * self.idle_seconds)

    @property
    def _until_asked_again(self) -> float:
        """Short beside a term, so that a duty soon passes on when its holder is gone."""
        return max(self.idle_seconds, min(ASK_SECONDS, self._term / 6))

    async def _is_mine(self) -> bool:
        """The holder asks at half time, however often hints come."""
        now = time.monotonic()
        if now < self._held_until - self._term / 2:
            return True
        if self.shift is not None and not await self.shift.is_mine():
            return False
        mine = await self.store.take_duty(self.name, self.steward.lease, self._term)
        self._held_until = now + self._term if mine else 0.0
        return mine

    async def _rest(self, seconds: float) -> None:
        seconds = max(COALESCE, min(seconds, self.idle_seconds))
        if not self.heeds_hints:
            await asyncio.sleep(seconds)
        elif await self._bell.wait(seconds):
            await asyncio.sleep(COALESCE)
