"""A child: imports one kind and runs its bodies, one at a time, in its main thread."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType

import msgspec

from taskyard.domain.outcome import Failed, Outcome
from taskyard.domain.task import Claimed
from taskyard.engine import tracing
from taskyard.engine.body import run_coroutine, run_plain
from taskyard.engine.context import Context
from taskyard.engine.isolate import kernel, tree
from taskyard.engine.isolate.channel import Channel
from taskyard.engine.isolate.desk import ChildDesk, LoopDesk, PlainContext
from taskyard.engine.isolate.logs import send_logs
from taskyard.engine.isolate.messages import Began, Begin, Done, Order
from taskyard.engine.isolate.place import Place, find
from taskyard.engine.job import Job, Stop, describe
from taskyard.engine.log import logger
from taskyard.engine.registry import Kind
from taskyard.engine.resources import Resources

OUT_OF_MEMORY = "out_of_memory"

log = logger("worker")


def serve(sock: socket.socket, order: Order) -> None:
    """Run what the worker sends until it sends no more."""
    sys.path[:] = order.sys_path
    channel = Channel(sock)
    send_logs(channel, order.log_levels)
    kernel.bound_memory(order.memory_limit)
    if sys.stderr is not None:
        faulthandler.enable()  # where a body was that crashes
    child = Child(channel, order.place, order.least_kept)
    try:
        _serve(channel, child)
    finally:
        if channel.is_mine:
            child.close()


def _serve(channel: Channel, child: Child) -> None:
    while (begin := channel.next_job()) is not None:
        channel.send(Began())
        done = child.run(begin)
        if not channel.is_mine:
            return  # a fork that the body made has come out of it
        channel.send(done)


class Child:
    def __init__(self, channel: Channel, place: Place, least_kept: int) -> None:
        self._channel = channel
        self._place = place
        self._least_kept = least_kept
        self._kind: Kind | None = None
        self._in_body = False
        self._resources = Resources(inline=True)
        self._runner = asyncio.Runner()  # one loop for all bodies: resources are at home on it

    def close(self) -> None:
        """There will be no more bodies."""
        if self._resources.are_used:
            self._runner.run(self._resources.close())
        self._runner.close()
        tracing.flush()

    def run(self, begin: Begin) -> Done:
        try:
            self._kind = self._kind or find(self._place)
        except BaseException as error:
            # An import that failed half-way is not tried again in the same process.
            return Done(Failed(describe(error)), spent=True)
        signal.signal(signal.SIGTERM, self._on_term)
        run = self._run_coroutine if self._kind.is_coroutine else self._run_plain
        with tracing.within(begin.trace):
            outcome = run(begin.claimed, self._kind)
        self._channel.on_ask = lambda _: None
        self._channel.on_pause = lambda _: None
        spent = isinstance(outcome, Failed) and outcome.error.type == OUT_OF_MEMORY
        return Done(outcome, tree.resident((os.getpid(),)), is_alone(), spent)

    def _run_plain(self, claimed: Claimed, kind: Kind) -> Outcome:
        job = ChildJob(claimed, kind, self._plain_context)
        self._channel.on_ask = job.ask
        self._channel.on_pause = job.want_pause
        if job.context.cancelled:  # looks at the socket
            return job.stopped()
        try:
            try:
                self._in_body = True
                return run_plain(job)
            finally:
                self._in_body = False
        except asyncio.CancelledError as error:
            return job.raised(error)  # the signal came between the body's end and here

    def _plain_context(self, claimed: Claimed) -> Context:
        desk = ChildDesk(self._channel, self._resources, self._least_kept)
        return PlainContext(claimed, self._channel, log, desk, self._runner)

    def _run_coroutine(self, claimed: Claimed, kind: Kind) -> Outcome:
        with ThreadPoolExecutor(thread_name_prefix="asyncio") as threads:
            # Of this body alone: it has not ended before the threads that it has started.
            self._runner.get_loop().set_default_executor(threads)
            try:
                return self._runner.run(self._on_loop(claimed, kind))
            finally:
                self._runner.run(self._end_leftovers())

    async def _end_leftovers(self) -> None:
        """Tasks that a body has left behind end with it."""
        kept = {asyncio.current_task(), *self._resources.tasks}
        left = [task for task in asyncio.all_tasks() if task not in kept]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _on_loop(self, claimed: Claimed, kind: Kind) -> Outcome:
        loop = asyncio.get_running_loop()
        desk = LoopDesk(self._channel, self._resources, self._least_kept)
        job = ChildJob(claimed, kind, partial(Context, desk=desk, log=log, loop=loop))
        self._channel.on_ask = job.ask
        self._channel.on_pause = job.want_pause
        desk.hear()  # what came with the job has left the socket: the reader would not tell of it
        if job.stop is not None:
            return job.stopped()
        body = loop.create_task(run_coroutine(job))
        job.cancel = partial(_cancel, body)
        loop.add_reader(self._channel.fileno(), desk.hear)
        loop.add_signal_handler(signal.SIGTERM, partial(_terminate, desk, body))
        try:
            return await body
        finally:
            loop.remove_reader(self._channel.fileno())
            loop.remove_signal_handler(signal.SIGTERM)

    def _on_term(self, _signal: int, _frame: FrameType | None) -> None:
        if self._in_body:
            self._channel.interrupt()


class ChildJob(Job):
    """A job whose worker is another process: why it is to stop may still be on its way."""

    def returned(self, value: object) -> Outcome:
        late = self.context.cancelled and self.stop is Stop.TIMEOUT
        return self.overran() if late and not self.kind.is_coroutine else super().returned(value)

    def raised(self, error: BaseException) -> Outcome:
        _ = self.context.cancelled  # looks at the socket
        outcome = super().raised(error)
        if isinstance(error, MemoryError) and isinstance(outcome, Failed):
            named = msgspec.structs.replace(outcome.error, type=OUT_OF_MEMORY)
            return msgspec.structs.replace(outcome, error=named)
        return outcome


def _cancel(body: asyncio.Task[Outcome]) -> None:
    body.cancel()


def _terminate(desk: LoopDesk, body: asyncio.Task[Outcome]) -> None:
    """The signal may be faster than the word that says why."""
    desk.hear()
    body.cancel()


def is_alone() -> bool:
    """Whether nothing that the body has started is left: orphans of its children are ours too."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
