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
from taskyard.store.redis.lines import hang_up
from taskyard.store.redis.link import Wording, line_to

LISTEN_SECONDS = 5.0  # of silence, until the server is asked whether it is still there
OWN_SECONDS = 0.02
MIN_BACKOFF, MAX_BACKOFF = 0.1, 5.0

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
        self._backoff = MIN_BACKOFF

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
        hosts = itertools.cycle(self._address.hosts)  # each node of a cluster hears everything
        while True:
            line = line_to(self._address, *next(hosts))
            try:
                async with asyncio.timeout(self._address.timeout):
                    await line.connect()
                    await line.send_command("SUBSCRIBE", self._channel)
                await self._listen(line)
            except Exception as error:  # whatever it was: without this task nobody hears again
                log.info("hints are not heard, polling goes on: %s", type(error).__name__)
            finally:
                with contextlib.suppress(Exception):
                    await hang_up(line)
            await asyncio.sleep(self._backoff)
            self._backoff = min(self._backoff * 2, MAX_BACKOFF)

    async def _listen(self, line: Any) -> None:
        """A line can die without a word: whoever says nothing and answers no ping is gone."""
        while await self._heard_until_silence(line):
            await line.send_command("PING", check_health=False)
        raise TimeoutError("no answer to a ping")

    async def _heard_until_silence(self, line: Any) -> bool:
        """Whether anything was heard before it."""
        now, heard = asyncio.get_running_loop().time, False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_SECONDS) as silence:
                while True:
                    # Not through the driver's own client, which takes longer than all that follows.
                    message = await line.read_response(disconnect_on_error=False)
                    heard = True
                    silence.reschedule(now() + LISTEN_SECONDS)
                    self._hear(*message)
        return heard

    def _hear(self, what: bytes, *rest: Any) -> None:
        match what:
            case b"subscribe":
                self._backoff = MIN_BACKOFF
                self._tell()  # something may have happened while nobody listened
            case b"message" if rest[1] != self._sender:
                self._tell()
            case b"message" if self._owed is None:
                self._owed = asyncio.get_running_loop().call_later(OWN_SECONDS, self._tell)

    def _tell(self) -> None:
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None
        for wake in list(self._listeners.values()):
            try:
                wake(Hint.CHANGED)
            except Exception:
                log.exception("a listener failed; the others are told, and it will be again")
