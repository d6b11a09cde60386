"""Pauses a lane whose bodies find the disk full: whatever starts next would fail too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskyard.domain.errors import StoreError
from taskyard.domain.lane import LaneChange
from taskyard.engine.log import logger
from taskyard.store.port import Store

TRIES = 5
FIRST_REST = 0.2

log = logger("worker")


class Brake:
    """Many bodies of a lane fail at once; the lane is paused once."""

    def __init__(self, store: Store, on_pause: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_pause = on_pause
        self._pausing: dict[str, asyncio.Task[None]] = {}

    def pull(self, lane: str, why: str) -> None:
        if lane not in self._pausing:
            task = asyncio.create_task(self._pause(lane, why), name="taskyard-brake")
            self._pausing[lane] = task
            task.add_done_callback(lambda _: self._pausing.pop(lane, None))

    async def stop(self) -> None:
        """Wait until what was begun is done."""
        await asyncio.gather(*self._pausing.values(), return_exceptions=True)

    async def _pause(self, lane: str, why: str) -> None:
        for turn in range(TRIES):
            try:
                if not await self._is_paused(lane):
                    change = LaneChange(paused=True, paused_reason=why)
                    await self._store.set_lane(lane, change, actor="system")
                    log.error("lane paused", lane=lane, why=why)
                    self._on_pause()
                return
            except StoreError as error:
                log.warning("pause lane", lane=lane, why=why, error=str(error))
                await asyncio.sleep(FIRST_REST * 2**turn)
        log.error("the lane could not be paused", lane=lane, why=why)

    async def _is_paused(self, lane: str) -> bool:
        """An operator's pause keeps its own reason."""
        return any(one.paused for one in await self._store.lanes() if one.name == lane)
