"""The worker's line to its keeper: starts it, speaks with it, and notices its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

from taskyard.engine.context import Desk
from taskyard.engine.isolate.messages import (
    Fork,
    Forked,
    Frames,
    FromKeeper,
    Gone,
    Message,
    Order,
    Renewed,
    frame,
)
from taskyard.engine.isolate.process import Process
from taskyard.engine.log import logger

LONGEST_END = 15.0  # seconds; the keeper itself gives up earlier
LOOK = 0.01  # seconds between two looks at a keeper that is ending
KEEPER_LOST = "keeper"

_CODE = """
import json, sys
numbers, path = sys.argv[1:]
sys.path[:] = json.loads(path)
from taskyard.engine.isolate.keeper import main
main(*json.loads(numbers))
"""

log = logger("isolate")


class Link:
    """One keeper, from its start to its end; use another one after that."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._sending = threading.Lock()  # the heartbeat's thread speaks too
        self._frames: Frames[FromKeeper] = Frames(FromKeeper)
        self._processes: dict[int, Process] = {}
        self._numbers = 0
        self._silent = asyncio.Event()  # the keeper says no more
        self._ending: asyncio.Task[None] | None = None
        self._control, theirs = socket.socketpair()
        read, self._lifeline = os.pipe()
        with theirs:
            self._keeper = _start_keeper(theirs.fileno(), read)
        os.close(read)
        self._control.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._hear)

    @property
    def is_up(self) -> bool:
        return self._ending is None

    async def fork(self, order: Order) -> Process:
        """A child. It may be spoken to at once; whether it could be made is told by its `gone`."""
        ours, theirs = socket.socketpair()
        self._numbers += 1
        gone = self._loop.create_future()
        process = Process(self._numbers, gone, self._desk, self._send)
        self._processes[process.number] = process
        with theirs:
            self._send(Fork(process.number, order), theirs.fileno())
        await process.connect(ours)
        return process

    def renewed(self, until: float) -> None:
        """From any thread."""
        self._send(Renewed(until))

    async def stop(self) -> None:
        """End the keeper, and with it every child and whatever they have started; idempotent."""
        if self._ending is None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            self._wind_up()
        assert self._ending is not None
        await asyncio.shield(self._ending)

    def _send(self, message: Message, fd: int | None = None) -> None:
        data = frame(message)
        with self._sending:
            try:
                if fd is None:
                    sent = self._control.send(data)
                else:
                    sent = socket.send_fds(self._control, [data], [fd])
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # it has gone: `_hear` will tell
        if sent < len(data):
            log.critical("the keeper of the isolated bodies does not listen: ending it")
            self._keeper.kill()

    def _hear(self) -> None:
        try:
            data = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._control.fileno())
            self._silent.set()
            self._wind_up()
            return
        for message in self._frames.feed(data):
            process = self._processes.get(message.number)
            if process is None:
                continue
            match message:
                case Forked(_, pid):
                    process.pid = pid
                case Gone(number):
                    del self._processes[number]
                    _tell_gone(process, message)

    def _wind_up(self) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._bury(), name="taskyard-keeper-end")

    async def _bury(self) -> None:
        """Once the keeper is dead, so are its children. If it was killed, of what they have started
        only those are reached that have stayed in their group.
        """
        try:
            async with asyncio.timeout(LONGEST_END):
                await self._silent.wait()
        except TimeoutError:
            log.critical("the keeper of the isolated bodies does not end: killing it")
            self._keeper.kill()
            self._loop.remove_reader(self._control.fileno())
        while (status := self._keeper.poll()) is None:  # noqa: ASYNC110 - nobody rings for it
            await asyncio.sleep(LOOK)
        with self._sending:
            self._control.close()
        os.close(self._lifeline)
        if status != 0:
            log.error("the keeper of the isolated bodies has died", status=status)
        for process in self._processes.values():
            if process.pid:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            _tell_gone(process, Gone(process.number, why=KEEPER_LOST))
        self._processes.clear()


def _tell_gone(process: Process, gone: Gone) -> None:
    if not process.gone.done():
        process.gone.set_result(gone)


def _start_keeper(control: int, lifeline: int) -> subprocess.Popen[bytes]:
    numbers = json.dumps((control, lifeline, os.getpid()))
    return subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", _CODE, numbers, json.dumps(sys.path)],
        pass_fds=(control, lifeline),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
