"""Working: being one of those who run the tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterable
from typing import Any, Literal

from taskyard.domain.errors import InvalidOption
from taskyard.domain.logs import KeepLogs
from taskyard.domain.node import DEFAULT_LEASE_SECONDS
from taskyard.engine.log import logger
from taskyard.engine.worker import DEFAULT_GRACE, DEFAULT_SLOTS, Worker
from taskyard.verbs.crons import CronVerbs
from taskyard.verbs.interpreter import tuned
from taskyard.verbs.life import Life

EXIT_INTERRUPTED = 130
ECHO = 1.0  # seconds: some send a signal to the process and to its group, and it arrives twice

KeepLogsName = KeepLogs | Literal["off", "debug", "info", "warning", "error"]

log = logger("worker")


class Working(CronVerbs, Life):
    def worker(
        self,
        *,
        slots: int = DEFAULT_SLOTS,
        kinds: Iterable[str] | None = None,
        capabilities: Iterable[str] = (),
        node_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        grace: float = DEFAULT_GRACE,
        memory_limit: int | None = None,
        keep_logs: KeepLogsName = "info",
    ) -> Worker:
        """A worker in this process: `await worker.start()`, later `await worker.stop()`.

        Over its `memory_limit` (bytes, without isolated processes) it drains by itself. Of what
        bodies say, `keep_logs` is the least level that is kept with the task, or "off".
        """
        routes = self.registry.routes(kinds)
        for kind in {self.registry[route] for route in routes}:
            if kind.versions.left_out:
                log.warning("left to older workers: no migration", kinds=kind.versions.left_out)
        worker = Worker(
            self.store,
            self.registry,
            self._notifier,
            slots=slots,
            kinds=routes,
            capabilities=capabilities,
            node_id=node_id,
            lease_seconds=lease_seconds,
            grace=grace,
            memory_limit=memory_limit,
            keep_logs=_kept(keep_logs),
            retention=self._retention_of_routes(),
            on_end=self._waiting.told,
            prepare=self._declare_crons,
        )
        self._workers.append(worker)
        return worker

    async def work(self, **options: Any) -> None:
        """Be a worker until SIGTERM or SIGINT; another signal, a second later, stops at once.

        One that is over its `memory_limit` leaves the process with exit code 76.
        """
        worker = self.worker(**options)
        stopped = asyncio.Event()
        signals = Signals(stopped)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, signals.heard)
        try:
            with tuned():
                code = await worker.run_until(stopped)
        finally:
            for name in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(ValueError):
                    loop.remove_signal_handler(name)
            await self.close()
        if code:
            raise SystemExit(code)


def _kept(level: str) -> KeepLogs:
    try:
        return KeepLogs(level)
    except ValueError:
        known = ", ".join(KeepLogs)
        raise InvalidOption(f"keep_logs must be one of {known}, not {level!r}") from None


class Signals:
    """The first one asks for a drain; another one does not want to wait for it."""

    def __init__(self, stopped: asyncio.Event) -> None:
        self._stopped = stopped
        self._first = 0.0

    def heard(self) -> None:
        now = time.monotonic()
        if not self._stopped.is_set():
            self._first = now
            self._stopped.set()
        elif now - self._first > ECHO:
            # Not even for bodies that ignore it. The next worker proves this process dead and
            # takes its tasks back at once.
            logging.shutdown()
            os._exit(EXIT_INTERRUPTED)
