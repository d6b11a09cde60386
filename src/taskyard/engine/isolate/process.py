"""A child as its worker sees it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import msgspec

from taskyard.domain.errors import TaskyardError
from taskyard.domain.task import Claimed
from taskyard.engine import tracing
from taskyard.engine.context import Desk
from taskyard.engine.isolate import logs
from taskyard.engine.isolate.messages import (
    Answer,
    Ask,
    Began,
    Begin,
    Children,
    Done,
    End,
    Frames,
    FromChild,
    Gone,
    Keep,
    Logged,
    Message,
    Needed,
    Pause,
    Report,
    Said,
    Terminate,
    frame,
)
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger

CHUNK = 65536
LAST_WORDS = 1.0  # seconds; only where a detached process may hold the socket of a dead one

log = logger("isolate")


class Process:
    """`gone` is done when the child and all of its descendants are dead."""

    def __init__(
        self,
        number: int,
        gone: asyncio.Future[Gone],
        desk: Desk,
        tell_keeper: Callable[[Message], None],
    ) -> None:
        self.number = number
        self.gone = gone
        self._tell_keeper = tell_keeper
        self.pid = 0  # not known yet
        self.jobs = 0
        self.idle_since = 0.0
        self.began = False  # the present job
        self._desk = desk
        self._frames: Frames[FromChild] = Frames(FromChild)
        self._answering: set[asyncio.Task[None]] = set()

    async def connect(self, sock: socket.socket) -> None:
        self._reader, self._writer = await asyncio.open_unix_connection(sock=sock)

    def close(self) -> None:
        """A child that can hear nothing more leaves."""
        self._writer.close()

    def ask(self, stop: Stop) -> None:
        self._send(Ask(stop))

    def tell_pause(self, wanted: bool) -> None:
        self._send(Pause(wanted))

    def terminate(self) -> None:
        """SIGTERM to its process group."""
        self._tell_keeper(Terminate(self.number))

    def end(self) -> None:
        """SIGKILL to it and all of its descendants; `gone` tells when they are dead."""
        self._tell_keeper(End(self.number))

    async def run(self, job: Job) -> Done | Gone:
        """Have this job run. Done: it has ended, and the child lives; Gone: there is no child."""
        self.began = False
        self.jobs += 1
        # A store may have a type of its own below Claimed, with another form on the wire.
        claimed = Claimed(*msgspec.structs.astuple(job.claimed))
        self._send(Begin(claimed, _trace(job)))
        if job.context.pausing:
            self.tell_pause(True)
        listening = asyncio.create_task(self._until_done(job))
        try:
            await asyncio.wait((listening, self.gone), return_when=asyncio.FIRST_COMPLETED)
            if self.gone.done():
                # What it said at last may not be read yet; then its end of the socket is closed.
                await asyncio.wait((listening,), timeout=LAST_WORDS)
            done = listening.result() if listening.done() else None
            return await asyncio.shield(self.gone) if done is None else done
        finally:
            listening.cancel()
            for answering in self._answering:
                answering.cancel()

    async def _until_done(self, job: Job) -> Done | None:
        async for message in self._messages():
            match message:
                case Began():
                    self.began = True
                case Done():
                    return message
                case Logged():
                    logs.write(message, self.pid)
                case Said(level, text):
                    self._desk.keep_line(job.claimed.hold, level, text)
                case Report() | Keep() | Needed() | Children():
                    task = asyncio.create_task(self._answer(message, job))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
        return None

    async def _messages(self) -> AsyncIterator[FromChild]:
        try:
            while data := await self._reader.read(CHUNK):
                for message in self._frames.feed(data):
                    yield message
        except ConnectionError:
            return
        except (msgspec.MsgspecError, ValueError) as error:
            # A body has written to a socket that is not its own; nothing it says counts any more.
            log.error("a child cannot be understood", pid=self.pid, error=str(error))
            self.close()

    async def _answer(self, asked: Report | Keep | Needed | Children, job: Job) -> None:
        hold = job.claimed.hold
        try:
            match asked:
                case Report(number, progress):
                    accepted = await self._desk.report(hold, progress)
                    self._send(Answer(number, accepted=accepted))
                case Keep(number, data):
                    accepted = await self._desk.checkpoint(hold, data)
                    self._send(Answer(number, accepted=accepted))
                case Needed(number):
                    endings = await self._desk.dependencies(job.claimed.id)
                    self._send(Answer(number, endings=endings))
                case Children(number, tasks):
                    below = tracing.below(tasks, _trace(job))
                    enqueued = await self._desk.enqueue(below, by=hold)
                    self._send(Answer(number, enqueued=enqueued))
        except TaskyardError as error:
            self._send(Answer(asked.number, error=(type(error).__name__, str(error))))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self._send(Answer(asked.number, error=("TaskyardError", text)))

    def _send(self, message: Message) -> None:
        self._writer.write(frame(message))


def _trace(job: Job) -> str | None:
    return None if job.span is None else job.span.trace
