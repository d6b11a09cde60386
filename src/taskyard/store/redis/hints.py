"""Hears that something may have changed: one subscription for all who listen in this process.

Whoever made a change knows already, so our own are told a little later and together: told at
once, each step of a worker would make it look for tasks in vain.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Any

from taskyard.store.port import Hint
from taskyard.store.redis.address import Address
from taskyard.store.redis.errors import FAILURES
from taskyard.store.redis.link import Wording, connect_to

LISTEN_SECONDS = 5.0
PING_SECONDS = 15
OWN_SECONDS = 0.02
MAX_BACKOFF = 5.0

log = logging.getLogger("taskyard.store.redis")


class Subscription:
    """Connects again by itself; what is missed meanwhile is found by polling."""

    def __init__(self, address: Address, wording: Wording) -> None:
        self._address = address
        self._channel = wording.channel
        self._sender = wording.sender.encode()
        self._listeners: dict[object, Callable[[Hint], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._owed: asyncio.TimerHandle | None = None

    def add(self, wake: Callable[[Hint], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = wake
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._main(), name="taskyard-redis-hints")
        return lambda: self._listeners.pop(token, None) and None

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            self._listeners.clear()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _main(self) -> None:
        backoff = 0.1
        hosts = itertools.cycle(self._address.hosts)  # each node of a cluster hears everything
        while True:
            host, port = next(hosts)
            client = connect_to(self._address, host, port, health_check_interval=PING_SECONDS)
            try:
                async with client.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(self._channel)
                    backoff = 0.1
                    self._tell()  # something may have happened while nobody listened
                    while True:
                        self._hear(await channel.get_message(timeout=LISTEN_SECONDS))
            except FAILURES as error:
                log.info("hints are not heard, polling goes on: %s", type(error).__name__)
            finally:
                with contextlib.suppress(*FAILURES):
                    await client.aclose()
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF)

    def _hear(self, message: Any) -> None:
        if message is None:
            return
        if message["data"] != self._sender:
            self._tell()
        elif self._owed is None:
            loop = asyncio.get_running_loop()
            self._owed = loop.call_later(OWN_SECONDS, self._tell)

    def _tell(self) -> None:
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None
        for wake in list(self._listeners.values()):
            wake(Hint.CHANGED)
