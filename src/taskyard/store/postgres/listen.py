"""Hears that something may have changed: one LISTEN for all who listen in this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any

from taskyard.store.port import Hint
from taskyard.store.postgres.connection import Connection, connect
from taskyard.store.postgres.errors import Raised
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.pooler import THROUGH_POOLER, is_pooled
from taskyard.store.postgres.queries import schema_name

PROBE_SECONDS = 10.0
MAX_BACKOFF = 5.0

log = logging.getLogger("taskyard.store.postgres")


class Listening:
    """A connection of its own; connects again by itself. What is missed is found by polling.

    Through a pooler LISTEN cannot work: it would be left in a session of somebody else's. Then
    there is polling alone, unless the URL says where the server itself is to be found.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._channel = f"{schema_name(options.namespace)}.changed"
        self._listeners: dict[object, Callable[[Hint], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._deaf = False

    def add(self, wake: Callable[[Hint], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = wake
        running = self._task is not None and not self._task.done()
        if not running and not self._deaf:
            self._task = asyncio.create_task(self._main(), name="taskyard-postgres-hints")
        return lambda: self._listeners.pop(token, None) and None

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _main(self) -> None:
        backoff = 0.1
        while True:
            connection: Connection | None = None
            try:
                connection = await connect(self._options, dsn=self._options.listen_dsn)
                if await self._cannot_hear(connection):
                    return
                await connection.add_listener(self._channel, self._hear)
                backoff = 0.1
                self._tell()  # something may have happened while nobody listened
                await self._watch(connection)
            except Raised as error:
                log.info("hints are not heard, polling goes on: %s", type(error).__name__)
            except Exception:
                log.exception("hints are not heard, polling goes on")
            finally:
                if connection is not None:
                    connection.terminate()
            # Not all at the same moment, when a server is back.
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, MAX_BACKOFF)

    async def _cannot_hear(self, connection: Connection) -> bool:
        if self._options.listen_dsn is not None or not await is_pooled(connection, self._options):
            return False
        log.info("hints are not heard: %s", THROUGH_POOLER)
        self._deaf = True
        return True

    async def _watch(self, connection: Connection) -> None:
        """Until the connection is lost: a silent one is asked whether it is still there."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        while not lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS):
                    await lost.wait()
                    return
            await connection.fetchval("SELECT 1", timeout=PROBE_SECONDS)

    def _hear(self, *_: Any) -> None:
        self._tell()

    def _tell(self) -> None:
        for wake in list(self._listeners.values()):
            wake(Hint.CHANGED)
