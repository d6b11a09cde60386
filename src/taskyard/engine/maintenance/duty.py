"""A duty: done by every worker and server, by exactly one of them at a time."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from taskyard.domain.errors import StoreError
from taskyard.domain.node import Lease
from taskyard.engine.log import logger
from taskyard.engine.notifier import Notifier
from taskyard.store.port import Store

log = logger("upkeep")

COALESCE = 0.02  # seconds: a busy file rings at every commit


class Steward(Protocol):
    """The worker or server that does the duty."""

    lease: Lease

    @property
    def lease_seconds(self) -> float: ...

    @property
    def steady_for(self) -> float: ...


class Duty(ABC):
    """Takes its leased row, then performs again and again until it is stopped or loses it."""

    name: ClassVar[str]
    idle_seconds: ClassVar[float] = 5.0
    heeds_hints: ClassVar[bool] = False

    def __init__(self, store: Store, notifier: Notifier, steward: Steward) -> None:
        self.store = store
        self.steward = steward
        self._notifier = notifier
        self._bell = notifier.bell()
        self._task: asyncio.Task[None] | None = None
        self._held_until = 0.0
        self._another_until = 0.0

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
                if await self._is_mine():
                    pause = await self.perform()
            except StoreError as error:
                log.warning("duty failed", duty=self.name, error=str(error))
            except Exception:
                log.exception("duty failed", duty=self.name)
            await self._rest(self.idle_seconds if pause is None else pause)

    async def _is_mine(self) -> bool:
        """Asked at half time by the holder, at idle times by others, however often hints come."""
        seconds = max(self.steward.lease_seconds, 3 * self.idle_seconds)
        now = time.monotonic()
        if now < self._held_until - seconds / 2:
            return True
        if now < self._another_until:
            return False
        mine = await self.store.take_duty(self.name, self.steward.lease, seconds)
        self._held_until = now + seconds if mine else 0.0
        self._another_until = 0.0 if mine else now + self.idle_seconds
        return mine

    async def _rest(self, seconds: float) -> None:
        seconds = max(COALESCE, min(seconds, self.idle_seconds))
        if not self.heeds_hints:
            await asyncio.sleep(seconds)
        elif await self._bell.wait(seconds):
            await asyncio.sleep(COALESCE)
