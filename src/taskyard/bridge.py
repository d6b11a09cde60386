"""A loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from taskyard.engine.log import logger
from taskyard.forks import leave_behind, mind_forks

T = TypeVar("T")

log = logger("bridge")


class Resident(Protocol):
    """What lives on the loop."""

    async def close(self) -> None: ...


Y = TypeVar("Y", bound=Resident)
Y_co = TypeVar("Y_co", covariant=True)


class Blocking(Protocol[Y_co]):
    """What those who block need of a bridge."""

    def run(self, ask: Callable[[Y_co], Coroutine[Any, Any, T]]) -> T:
        """Have this done on the loop and wait for what comes of it."""


class _Life(Generic[Y]):
    """From start to close: the thread, its loop and who lives there."""

    def __init__(self, make: Callable[[], Y]) -> None:
        self._make = make
        self._started: Future[None] = Future()
        self.loop: asyncio.AbstractEventLoop
        self.resident: Y
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._main, name="taskyard-bridge", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._started.result()

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _main(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        try:
            self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self.resident = self._make()
        except BaseException as error:
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._stop.wait()
        try:
            await self.resident.close()
        except Exception as error:
            log.error("close", error=str(error))


class Bridge(Generic[Y]):
    """Starts with the first call and goes on until `close`, or the end of the program.

    Safe after a fork: the child has a loop and a resident of its own.
    """

    def __init__(self, make: Callable[[], Y]) -> None:
        self._make = make
        self._gate = threading.Lock()
        self._life: _Life[Y] | None = None
        mind_forks(self)
        _bridges.add(self)

    def run(self, ask: Callable[[Y], Coroutine[Any, Any, T]]) -> T:
        _refuse_on_a_loop()
        life = self._living()
        future = asyncio.run_coroutine_threadsafe(ask(life.resident), life.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of use only if it was we who were interrupted
            raise

    def close(self) -> None:
        """Idempotent; the next call begins anew."""
        with self._gate:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    def begin_anew(self) -> None:
        leave_behind(self._life)
        self._gate = threading.Lock()
        self._life = None

    def _living(self) -> _Life[Y]:
        with self._gate:
            if self._life is None:
                life = _Life(self._make)
                life.start()
                self._life = life
            return self._life


_bridges: WeakSet[Bridge[Any]] = WeakSet()


def _refuse_on_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "this would block the event loop it is called on: leave `.sync` out and await the verb"
    )


@atexit.register
def _close_all() -> None:
    for bridge in list(_bridges):
        bridge.close()
