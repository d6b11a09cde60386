"""Lets many callers wait for the ends of many tasks with one question to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from taskyard.domain.errors import StoreError, StoreUnavailable
from taskyard.domain.outcome import Verdict
from taskyard.domain.state import TERMINAL
from taskyard.engine.log import logger
from taskyard.engine.notifier import POLL_SECONDS, Notifier
from taskyard.store.port import Ending, Store

FIRST_BACKOFF = 0.05  # seconds

log = logger("waiting")


class WaitingRoom:
    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._waiting: dict[str, set[asyncio.Future[Ending]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None:
        """How the task ended, or None if it did not within so many seconds."""
        future: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task_id, set()).add(future)
        self._watch()
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            self._leave(task_id, future)

    def _leave(self, task_id: str, future: asyncio.Future[Ending]) -> None:
        """Whoever has gone is not asked for any more."""
        others = self._waiting.get(task_id, set())
        others.discard(future)
        if not others:
            self._waiting.pop(task_id, None)

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
        for future in [future for futures in self._waiting.values() for future in futures]:
            if not future.done():
                future.set_exception(StoreUnavailable("the yard was closed while waiting"))

    def _watch(self) -> None:
        if self._task is None or self._task.done():
            self._notifier.start()
            self._task = asyncio.create_task(self._main(), name="taskyard-waiting")

    async def _main(self) -> None:
        """Runs while somebody waits."""
        bell = self._notifier.bell()
        backoff = FIRST_BACKOFF
        try:
            while self._waiting:
                if await self._ask():
                    backoff = FIRST_BACKOFF
                    if self._waiting:
                        await bell.wait(POLL_SECONDS)
                else:
                    await asyncio.sleep(backoff)
                    backoff = min(backoff * 2, POLL_SECONDS)
        finally:
            self._notifier.drop(bell)

    async def _ask(self) -> bool:
        """Whatever goes wrong, it is asked again: without this task all would wait for ever."""
        try:
            for ending in await self._store.endings(list(self._waiting)):
                self._deliver(ending)
        except StoreError as error:
            log.warning("endings", error=str(error))
        except Exception:
            log.exception("endings")
        else:
            return True
        return False

    def _deliver(self, ending: Ending) -> None:
        for future in self._waiting.pop(ending.id, ()):
            if not future.done():
                future.set_result(ending)
