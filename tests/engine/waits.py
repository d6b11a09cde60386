"""Waiting for states, with a generous limit instead of sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from taskyard import Handle, State, Task, Worker, Yard

T = TypeVar("T")

LIMIT = 60.0


async def until(handle: Handle[Any], *states: State) -> Task:
    """The task once it is in one of these states."""

    async def look() -> Task | None:
        task = await handle.task()
        return task if task.state in states else None

    yard = handle._office
    assert isinstance(yard, Yard)
    return await found(yard, look)


async def found(yard: Yard, look: Callable[[], Awaitable[T | None]], limit: float = LIMIT) -> T:
    """What `look` finds, looking again whenever the store has changed."""
    bell = yard._notifier.bell()
    yard._notifier.start()
    try:
        async with asyncio.timeout(limit):
            while (seen := await look()) is None:
                await bell.wait(1.0)
        return seen
    finally:
        yard._notifier.drop(bell)


async def running(handle: Handle[Any]) -> Task:
    return await until(handle, State.RUNNING)


async def ended(handle: Handle[Any]) -> Task:
    return await until(handle, State.COMPLETED, State.FAILED, State.CANCELLED)


@asynccontextmanager
async def working(yard: Yard, **options: Any) -> AsyncIterator[Worker]:
    """A worker for the time of a block; stopped without patience."""
    worker = yard.worker(**options)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(grace=0.0)
