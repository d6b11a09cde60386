"""Working: being one of those who run the tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterable
from typing import Any

from taskyard.domain.node import DEFAULT_LEASE_SECONDS
from taskyard.engine.worker import DEFAULT_GRACE, DEFAULT_SLOTS, Worker
from taskyard.verbs.life import Life

EXIT_INTERRUPTED = 130


class Working(Life):
    def worker(
        self,
        *,
        slots: int = DEFAULT_SLOTS,
        kinds: Iterable[str] | None = None,
        capabilities: Iterable[str] = (),
        node_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        grace: float = DEFAULT_GRACE,
    ) -> Worker:
        """A worker in this process: `await worker.start()`, later `await worker.stop()`."""
        worker = Worker(
            self.store,
            self.registry,
            self._notifier,
            slots=slots,
            kinds=kinds,
            capabilities=capabilities,
            node_id=node_id,
            lease_seconds=lease_seconds,
            grace=grace,
            retention=self.retention,
            on_end=self._waiting.told,
        )
        self._workers.append(worker)
        return worker

    async def work(self, **options: Any) -> None:
        """Be a worker until SIGTERM or SIGINT; a second signal stops at once."""
        worker = self.worker(**options)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, _on_signal, stopped)
        try:
            await worker.run_until(stopped)
        finally:
            for name in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(ValueError):
                    loop.remove_signal_handler(name)
            await self.close()


def _on_signal(stopped: asyncio.Event) -> None:
    if stopped.is_set():
        # Twice: whoever sent it does not want to wait, not even for bodies that ignore it. The
        # next worker proves this process dead and takes its tasks back at once.
        logging.shutdown()
        os._exit(EXIT_INTERRUPTED)
    stopped.set()
