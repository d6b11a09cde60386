"""Lets many callers wait for the ends of many tasks with one question to the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from taskyard.domain.errors import StoreError
from taskyard.domain.outcome import Verdict
from taskyard.domain.state import TERMINAL
from taskyard.engine.log import logger
from taskyard.engine.notifier import POLL_SECONDS, Notifier
from taskyard.store.port import Ending, Store

log = logger("waiting")


class WaitingRoom:
    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._waiting: dict[str, asyncio.Future[Ending]] = {}
        self._task: asyncio.Task[None] | None = None

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None:
        """How the task ended, or None if it did not within so many seconds."""
        future = self._waiting.get(task_id)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting[task_id] = future
        self._watch()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                return await asyncio.shield(future)
        return None

    def told(self, verdicts: Sequence[Verdict]) -> None:
        """A worker of this process has ended these: no need to ask the store."""
        if not self._waiting:
            return
        for verdict in verdicts:
            if verdict.state in TERMINAL:
                self._deliver(Ending(verdict.id, verdict.state, verdict.result, verdict.error))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()

    def _watch(self) -> None:
        if self._task is None or self._task.done():
            self._notifier.start()
            self._task = asyncio.create_task(self._main(), name="taskyard-waiting")

    async def _main(self) -> None:
        """Runs while somebody waits."""
        bell = self._notifier.bell()
        try:
            while self._waiting:
                try:
                    for ending in await self._store.endings(list(self._waiting)):
                        self._deliver(ending)
                except StoreError as error:
                    log.warning("endings", error=str(error))
                if self._waiting:
                    await bell.wait(POLL_SECONDS)
        finally:
            self._notifier.drop(bell)

    def _deliver(self, ending: Ending) -> None:
        future = self._waiting.pop(ending.id, None)
        if future is not None and not future.done():
            future.set_result(ending)
