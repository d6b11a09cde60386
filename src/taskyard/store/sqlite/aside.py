"""Does something that blocks beside the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from taskyard.domain.errors import StoreUnavailable

T = TypeVar("T")


async def aside(function: Callable[[], T]) -> T:
    """In a thread of its own: bodies may have filled the loop's pool, and when the program is about
    to end no pool takes work any more."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    try:
        threading.Thread(target=run, name="taskyard-sqlite-life", daemon=True).start()
    except RuntimeError as error:  # this machine has no more
        raise StoreUnavailable(f"SQLite needs a thread of its own: {error}") from error
    return await asyncio.wrap_future(done)
