"""Things that are made once and shared by bodies: an HTTP pool, a connection to a database.

Each is entered and left in one place: an async one in a task of its own, a plain one in a thread
of its own, because many of them may only be closed where they were opened.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Generic, TypeVar, cast

from taskyard.domain.errors import InvalidHandler
from taskyard.engine.log import logger

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CLOSE_SECONDS = 10.0  # after which a resource that is being closed is left to itself

log = logger("resources")

Made = AbstractAsyncContextManager[T] | AbstractContextManager[T]


class Resource(Generic[T_co]):
    """What `@yard.resource` makes of a function: how to make the thing, not the thing."""

    def __init__(
        self, function: Callable[[], AsyncIterator[T_co] | Iterator[T_co] | Made[T_co]]
    ) -> None:
        self.name = function.__name__
        if inspect.signature(function).parameters:
            raise InvalidHandler(f"resource {self.name} takes no arguments: a worker makes it")
        self._make = _context_manager(function)

    def make(self) -> Made[T_co]:
        made = self._make()
        if not isinstance(made, AbstractAsyncContextManager | AbstractContextManager):
            raise InvalidHandler(
                f"resource {self.name} must yield the thing once, or return a context manager"
            )
        return made

    def __repr__(self) -> str:
        return f"<resource {self.name}>"


def _context_manager(function: Callable[[], Any]) -> Callable[[], Any]:
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)
    if inspect.isgeneratorfunction(function):
        return contextmanager(function)
    return function


class Resources:
    """Of one worker, or of one child process.

    `inline`: a plain resource is made in the thread that asks; for children, which have only one
    thread so that bodies may fork.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self._inline = inline
        self._kept: dict[Resource[Any], _Kept] = {}  # in the order they were made
        self._closed = False

    async def get(self, resource: Resource[T]) -> T:
        """The thing, made if this is the first use. All who ask meanwhile wait for the same one."""
        kept = self._kept.get(resource)
        if kept is None:
            if self._closed:
                raise RuntimeError(f"{resource}: the worker is stopping")
            kept = self._kept[resource] = self._keep(resource)
        try:
            thing = await asyncio.shield(kept.ready)
        except asyncio.CancelledError:
            raise  # whoever asked; making it goes on
        except BaseException:
            if self._kept.get(resource) is kept:
                del self._kept[resource]  # the next one tries again
            raise
        return cast("T", thing)

    async def close(self) -> None:
        """The last one first, because it may need those before; idempotent."""
        self._closed = True
        while self._kept:
            resource, kept = self._kept.popitem()
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await kept.close()
            except TimeoutError:
                log.error("a resource does not close and is left", resource=resource.name)
            except Exception:
                log.exception("close", resource=resource.name)

    @property
    def are_used(self) -> bool:
        return bool(self._kept)

    @property
    def tasks(self) -> set[asyncio.Task[Any]]:
        """Those that live as long as a resource does."""
        return {kept.task for kept in self._kept.values() if kept.task is not None}

    def _keep(self, resource: Resource[Any]) -> _Kept:
        made = resource.make()
        if isinstance(made, AbstractAsyncContextManager):
            return _OnLoop(made)
        return _Inline(made) if self._inline else _InThread(made, resource.name)


class _Kept:
    """One thing from its making to its closing."""

    task: asyncio.Task[None] | None = None

    def __init__(self) -> None:
        self.ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.ready.add_done_callback(_seen)

    async def close(self) -> None:
        raise NotImplementedError


class _OnLoop(_Kept):
    def __init__(self, made: AbstractAsyncContextManager[Any]) -> None:
        super().__init__()
        self._leave = asyncio.Event()
        self.task = asyncio.create_task(self._live(made), name="taskyard-resource")

    async def _live(self, made: AbstractAsyncContextManager[Any]) -> None:
        try:
            thing = await made.__aenter__()
        except BaseException as error:
            _settle(self.ready, None, error)
            return
        self.ready.set_result(thing)
        await self._leave.wait()
        await made.__aexit__(None, None, None)

    async def close(self) -> None:
        if not self.ready.done():
            assert self.task is not None
            self.task.cancel()  # it is still being made, and nobody needs it any more
        self._leave.set()
        assert self.task is not None
        await self.task


class _InThread(_Kept):
    def __init__(self, made: AbstractContextManager[Any], name: str) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._leave = threading.Event()
        self._left: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(
            target=self._live, args=(made,), name=f"taskyard-resource-{name}", daemon=True
        ).start()

    def _live(self, made: AbstractContextManager[Any]) -> None:
        try:
            thing = made.__enter__()
        except BaseException as error:
            self._tell(self.ready, None, error)
            self._tell(self._left, None, None)
            return
        self._tell(self.ready, thing, None)
        self._leave.wait()
        try:
            made.__exit__(None, None, None)
        except BaseException as error:
            self._tell(self._left, None, error)
        else:
            self._tell(self._left, None, None)

    def _tell(self, whom: asyncio.Future[Any], thing: Any, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, whom, thing, error)
        except RuntimeError:
            return  # the loop has gone, and with it everyone who could want to know

    async def close(self) -> None:
        self._leave.set()
        await self._left


class _Inline(_Kept):
    def __init__(self, made: AbstractContextManager[Any]) -> None:
        super().__init__()
        self._made = made
        try:
            self.ready.set_result(made.__enter__())
        except BaseException as error:
            _settle(self.ready, None, error)

    async def close(self) -> None:
        self._made.__exit__(None, None, None)


def _settle(future: asyncio.Future[Any], thing: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(thing)
    elif isinstance(error, StopIteration | asyncio.CancelledError):
        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
    else:
        future.set_exception(error)


def _seen(future: asyncio.Future[Any]) -> None:
    """Whoever waited has been told; there may be nobody left who did."""
    if not future.cancelled():
        future.exception()
