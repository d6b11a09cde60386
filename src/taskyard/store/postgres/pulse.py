"""Beats from any thread, without the caller's event loop: a thread with a loop and a connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from taskyard.domain.errors import StoreUnavailable
from taskyard.store.postgres.connection import Connection, connect
from taskyard.store.postgres.errors import Raised, is_lost, translate
from taskyard.store.postgres.isolation import use_read_committed
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.pooler import is_pooled, learn_types


class Pulse:
    """Started with the first beat; connects again by itself."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._gate = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: Future[None] | None = None
        self._line: Line | None = None
        self._connecting: asyncio.Task[Line] | None = None
        self._busy: asyncio.Lock | None = None

    def row(self, statement: str, *args: object, timeout: float) -> Any:
        """One call, answered within so many seconds or refused."""
        call = self._call(statement, args, timeout)
        future = asyncio.run_coroutine_threadsafe(call, self._started())
        try:
            # The coroutine has the same limit; a little more only in case its thread is stuck.
            return future.result(timeout + 1)
        except TimeoutError:
            future.cancel()
            raise StoreUnavailable(
                f"{self._options.place} did not answer within {timeout:g} s"
            ) from None
        except Raised as error:
            raise translate(error, self._options.place) from error

    async def stop(self) -> None:
        """Not through the loop's own threads: bodies that block may have taken all of them."""
        with self._gate:
            loop, ended = self._loop, self._ended
            self._loop = self._ended = None
        if loop is not None and ended is not None:
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.shield(asyncio.wrap_future(ended))

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._gate:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._busy = asyncio.Lock()
                self._ended = Future()
                threading.Thread(
                    target=self._main,
                    args=(self._loop, self._ended),
                    name="taskyard-postgres-pulse",
                    daemon=True,
                ).start()
            return self._loop

    def _main(self, loop: asyncio.AbstractEventLoop, ended: Future[None]) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            self._hang_up()
            if self._connecting is not None:
                self._connecting.cancel()
                loop.run_until_complete(asyncio.gather(self._connecting, return_exceptions=True))
            loop.run_until_complete(asyncio.sleep(0))  # lets the socket be closed
            loop.close()
            ended.set_result(None)

    async def _call(self, statement: str, args: tuple[object, ...], timeout: float) -> Any:
        assert self._busy is not None
        async with asyncio.timeout(timeout), self._busy:
            fresh = self._line is None
            try:
                return await self._ask(statement, args)
            except Raised as error:
                self._hang_up()
                if fresh or not is_lost(error):
                    raise
            # The connection died while nobody looked: one beat is worth a second try.
            return await self._ask(statement, args)

    async def _ask(self, statement: str, args: tuple[object, ...]) -> Any:
        """A line that has never answered may be slow: what was asked on it is left to come in, or
        every beat would be cut short and connect anew. One that has is not waited for twice.
        """
        if self._line is None:
            self._line = await self._connected(statement)
        line = self._line
        may_be_slow = not line.has_answered and line.asked is None
        try:
            if line.asked is not None:
                await asyncio.shield(line.asked)  # an earlier beat's: it says nothing of this one
            return await line.ask(*args)
        except asyncio.CancelledError:
            if not may_be_slow:
                self._hang_up()
            raise

    async def _connected(self, statement: str) -> Line:
        """Goes on when the beat that asked for it gives up: on a slow line that one was too short
        to connect in, and so would be every other.
        """
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect(statement))
        try:
            return await asyncio.shield(self._connecting)
        finally:
            if self._connecting.done():
                self._connecting = None

    async def _connect(self, statement: str) -> Line:
        """The driver also learns the types of the answer here, which takes it several questions."""
        connection = await connect(self._options)
        try:
            if not await is_pooled(connection, self._options):
                await use_read_committed(connection)
                prepared = await connection.prepare(statement)
                return Line(connection, prepared.fetchrow)
            await learn_types(connection)
            return Line(connection, partial(connection.fetchrow, statement))
        except BaseException:
            connection.terminate()
            raise

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.end()


class Line:
    """A connection and the one question that is asked on it."""

    def __init__(self, connection: Connection, fetch: Callable[..., Awaitable[Any]]) -> None:
        self._connection = connection
        self._fetch = fetch
        self.asked: asyncio.Future[Any] | None = None  # and not answered yet
        self.has_answered = False

    async def ask(self, *args: object) -> Any:
        """Whoever gives up waiting does not cut the question off."""
        self.asked = asyncio.ensure_future(self._fetch(*args))
        self.asked.add_done_callback(self._answered)
        return await asyncio.shield(self.asked)

    def end(self) -> None:
        if self.asked is not None:
            self.asked.cancel()
        self._connection.terminate()

    def _answered(self, asked: asyncio.Future[Any]) -> None:
        self.asked = None
        self.has_answered = not asked.cancelled() and asked.exception() is None
