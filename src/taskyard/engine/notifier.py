"""Spreads hints: something may have changed, so look again.

Hints save waiting, nothing depends on them: whoever waits for one also looks by itself after
`POLL_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from taskyard.store.port import Hint, Store

POLL_SECONDS = 5.0


class Bell:
    """One listener: rings stay until they are heard."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, timeout: float = POLL_SECONDS) -> bool:
        """Wait for a ring, at most so long; says whether it rang."""
        rang = True
        if not self._event.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._event.wait()
            rang = self._event.is_set()
        self._event.clear()
        return rang


class Notifier:
    """From the store, and from this process itself, to everyone in it who waits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bells: list[Bell] = []
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        if self._stop_listening is None:
            self._stop_listening = self._store.listen(self._hear)

    def stop(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None

    def bell(self) -> Bell:
        bell = Bell()
        self._bells.append(bell)
        return bell

    def drop(self, bell: Bell) -> None:
        if bell in self._bells:
            self._bells.remove(bell)

    def ring(self) -> None:
        """Something was done in this very process: no need to wait for the store's hint."""
        for bell in self._bells:
            bell.ring()

    def _hear(self, _hint: Hint) -> None:
        self.ring()
