"""A child's end of the socket to its worker."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from taskyard.engine.isolate.messages import (
    Answer,
    Ask,
    Begin,
    Frames,
    Message,
    Pause,
    ToChild,
    frame,
)
from taskyard.engine.job import Stop

CHUNK = 65536


class Channel:
    """Blocking, for whichever thread needs it; no thread of its own, so that bodies may fork.

    What the worker asks in between is heard when the body looks or speaks.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._owner = os.getpid()
        self._frames: Frames[ToChild] = Frames(ToChild)
        self._inbox: deque[ToChild] = deque()
        self._sending = threading.Lock()
        self._talking = threading.RLock()
        self._main_is_inside = False
        self._interrupted = False
        self._numbers = 0
        self.on_ask: Callable[[Stop], None] = lambda _: None
        self.on_pause: Callable[[bool], None] = lambda _: None

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_mine(self) -> bool:
        """Not so in a process that a body has forked: two would speak at once."""
        return os.getpid() == self._owner

    def send(self, message: Message) -> None:
        self._require_mine()
        with self._undisturbed():
            self._send(message)

    def _send(self, message: Message) -> None:
        data = frame(message)
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:
                _orphaned()

    def next_number(self) -> int:
        with self._sending:
            self._numbers += 1
            return self._numbers

    def next_job(self) -> Begin | None:
        """None: there will be no more."""
        while True:
            while self._inbox:
                message = self._inbox.popleft()
                if isinstance(message, Begin):
                    return message  # what came before is for a job that has ended
            if not self._receive():
                return None

    def exchange(self, number: int, request: Message) -> Answer:
        """Ask the worker and wait for what it says."""
        self._require_mine()
        with self._undisturbed(), self._talking:
            self._send(request)
            while True:
                for message in self.heard():
                    if isinstance(message, Answer) and message.number == number:
                        return message
                if not self._receive():
                    _orphaned()

    def listen(self) -> None:
        """Hear what has come, without waiting."""
        if not self.is_mine:
            return
        with self._undisturbed(), self._talking:
            self.receive_ready()
            for _ in self.heard():
                pass

    def heard(self) -> Iterator[ToChild]:
        """What has come in, once; wishes that the body stop or pause are passed on by the way."""
        while self._inbox:
            message = self._inbox.popleft()
            if isinstance(message, Ask):
                self.on_ask(message.stop)
            elif isinstance(message, Pause):
                self.on_pause(message.wanted)
            yield message

    def receive_ready(self) -> None:
        try:
            if not self._receive(socket.MSG_DONTWAIT):
                _orphaned()
        except BlockingIOError:
            return

    def _receive(self, flags: int = 0) -> bool:
        try:
            data = self._socket.recv(CHUNK, flags)
        except ConnectionError:
            data = b""
        self._inbox.extend(self._frames.feed(data))
        return bool(data)

    def _require_mine(self) -> None:
        if not self.is_mine:
            raise RuntimeError("a process that a body has forked cannot use its context")

    # --- signals ---

    def interrupt(self) -> None:
        """Raise CancelledError in the main thread, but never inside a message."""
        if self._main_is_inside:
            self._interrupted = True
        else:
            raise asyncio.CancelledError

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread() or self._main_is_inside:
            yield
            return
        self._main_is_inside = True
        try:
            yield
        finally:
            self._main_is_inside = False
            if self._interrupted:
                self._interrupted = False
                raise asyncio.CancelledError


def _orphaned() -> None:
    """The worker is gone, and with it everyone who could want to know how this ends."""
    os._exit(1)
