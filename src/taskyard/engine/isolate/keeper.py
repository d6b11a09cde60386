"""The keeper: forks children, kills them with all they have started, and reaps what is left.

A process of its own between the worker and the bodies. It has one thread and runs no user code, so
that a fork of it is safe and quick. It and every child adopt orphans: while a child lives, all of
its descendants are below it, also those that have detached themselves; once it is dead, they are
the keeper's own. So a child of the keeper that is no body is what a dead body has left.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from types import FrameType

from taskyard.engine.heartbeat import lease_time
from taskyard.engine.isolate import child, kernel, tree
from taskyard.engine.isolate.messages import (
    End,
    Fork,
    Forked,
    Frames,
    Gone,
    Message,
    Renewed,
    Terminate,
    ToKeeper,
    frame,
)

EXIT_BROKEN = 70
AGAIN = 0.01  # seconds between two looks at processes that are being killed
LOOK_AT_BODY = 0.1  # seconds between two looks at the memory of the bodies
LOOK_AT_TREES = 1.0  # and at that of their descendants
LONGEST_LEAVING = 10.0  # seconds; a process that the kernel does not let go is left to it


class Body:
    """A child as its keeper sees it."""

    def __init__(self, number: int, pid: int, memory_limit: int) -> None:
        self.number = number
        self.pid = pid
        self.memory_limit = memory_limit
        self.ending = False
        self.why = ""
        self.status: int | None = None


class Keeper:
    def __init__(self, control: socket.socket, lifeline: int) -> None:
        self._control = control
        self._lifeline = lifeline
        self._frames: Frames[ToKeeper] = Frames(ToKeeper)
        self._fds: list[int] = []
        self._bodies: dict[int, Body] = {}  # by pid, until they and theirs are gone
        self._until = float("inf")
        self._leaving = False
        self._next_look = 0.0
        self._next_trees = 0.0

    def run(self) -> None:
        self._wake, wake_up = os.pipe()
        for end in (self._wake, wake_up):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while not self._leaving:
            for fd, _ in poller.poll(self._patience()):
                if fd == self._wake:
                    os.read(self._wake, 4096)
                else:
                    self._hear()
            self._mind_lease()
            self._mind_memory()
            self._tidy()
        self._leave()

    def _on_term(self, _signal: int, _frame: FrameType | None) -> None:
        self._leaving = True

    def _patience(self) -> int | None:
        """Milliseconds until there is something to do unasked."""
        if not self._bodies:
            return None
        if any(body.ending or body.status is not None for body in self._bodies.values()):
            return int(AGAIN * 1000)
        return int(LOOK_AT_BODY * 1000)

    # --- the worker ---

    def _hear(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 65536, 16)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        self._fds += fds
        if not data:
            self._leaving = True  # the worker has gone, or has no more need of us
            return
        for message in self._frames.feed(data):
            match message:
                case Fork():
                    self._fork(message, self._fds.pop(0))
                case Terminate(number):
                    self._terminate(number)
                case End(number):
                    for body in self._bodies.values():
                        if body.number == number:
                            self._end(body)
                case Renewed(until):
                    self._until = until

    def _tell(self, message: Message) -> None:
        try:
            self._control.setblocking(True)
            self._control.sendall(frame(message))
        except OSError:
            self._leaving = True
        finally:
            self._control.setblocking(False)

    # --- children ---

    def _fork(self, asked: Fork, channel: int) -> None:
        keeper = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(channel)
            self._tell(Gone(asked.number, why=f"no process can be made: {error.strerror}"))
            return
        if pid == 0:
            self._be_child(asked, channel, keeper)
        os.close(channel)
        self._bodies[pid] = Body(asked.number, pid, asked.order.memory_limit)
        self._tell(Forked(asked.number, pid))

    def _be_child(self, asked: Fork, channel: int, keeper: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            kernel.die_with_parent(keeper)
            kernel.adopt_orphans()
            kernel.die_with_writer(self._lifeline)
            kernel.be_first_when_memory_ends()
            self._control.close()
            for fd in (self._wake, self._lifeline, *self._fds):
                os.close(fd)
            os.set_inheritable(channel, False)
            child.serve(socket.socket(fileno=channel), asked.order)
        except BaseException:
            traceback.print_exc()
            os._exit(EXIT_BROKEN)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(0)

    def _terminate(self, number: int) -> None:
        for body in self._bodies.values():
            if body.number == number and body.status is None:
                with contextlib.suppress(OSError):
                    os.killpg(body.pid, signal.SIGTERM)

    def _end(self, body: Body, why: str = "") -> None:
        """Begin to kill a body: it is stopped, so that it starts nothing more meanwhile."""
        if body.ending or body.status is not None:
            return
        body.ending, body.why = True, why
        _kill(body.pid, signal.SIGSTOP)

    def _tidy(self) -> None:
        """One step in killing those that are to end, and what the dead have left behind."""
        self._reap()
        ending = [body for body in self._bodies.values() if body.ending and body.status is None]
        if not ending and not self._dead():
            return
        table = tree.processes()
        for body in ending:
            if not _kill_all(tree.descendants(body.pid, table)):
                _kill(body.pid)
                _kill_group(body.pid)
        if not _kill_all(self._strays(table)):
            self._bury()

    def _strays(self, table: dict[int, tree.Process]) -> list[int]:
        """Live processes below us that belong to no body that lives."""
        mine = os.getpid()
        roots = [p for p in table.values() if p.parent == mine and p.pid not in self._bodies]
        found = [root.pid for root in roots if root.live]
        for root in roots:
            found += tree.descendants(root.pid, table)
        return found

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                body = self._bodies.get(ended[0])
                if body is not None:
                    body.status = os.waitstatus_to_exitcode(ended[1])
                    _kill_group(body.pid)

    def _dead(self) -> list[Body]:
        return [body for body in self._bodies.values() if body.status is not None]

    def _bury(self) -> None:
        for body in self._dead():
            del self._bodies[body.pid]
            self._tell(Gone(body.number, body.status or 0, body.why))

    # --- unasked ---

    def _mind_lease(self) -> None:
        """A worker that is frozen cannot stop its bodies, and others will have their tasks."""
        if lease_time() > self._until:
            for body in self._bodies.values():
                self._end(body, "lease")

    def _mind_memory(self) -> None:
        now = time.monotonic()
        if now < self._next_look or not kernel.IS_LINUX:
            return
        self._next_look = now + LOOK_AT_BODY
        table: dict[int, tree.Process] = {}
        if now >= self._next_trees:
            self._next_trees = now + LOOK_AT_TREES
            table = tree.processes()
        for body in self._bodies.values():
            if body.memory_limit and _is_over([body.pid, *tree.descendants(body.pid, table)], body):
                self._end(body, "memory")

    def _leave(self) -> None:
        """Nothing outlives the worker. The bodies first: others may have their tasks by now."""
        for body in self._bodies.values():
            _kill_group(body.pid)
            self._end(body)
        given_up = time.monotonic() + LONGEST_LEAVING
        while time.monotonic() < given_up:
            self._tidy()
            if not self._bodies and not _kill_all(self._strays(tree.processes())):
                return
            time.sleep(AGAIN)


def _is_over(pids: list[int], body: Body) -> bool:
    """The quick figure first: it is never smaller than the exact one."""
    limit = body.memory_limit
    return tree.resident(pids) > limit and tree.proportional(pids) > limit


def _kill_all(pids: list[int]) -> list[int]:
    """Those that it is worth waiting for."""
    return [pid for pid in pids if _kill(pid)]


def _kill(pid: int, sig: signal.Signals = signal.SIGKILL) -> bool:
    """False: it has gone, or has become another user's and is out of our reach."""
    try:
        os.kill(pid, sig)
    except OSError:
        return False
    return True


def _kill_group(pid: int) -> None:
    """Without /proc this is how descendants are reached: those that did not detach themselves."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def main(control: int, lifeline: int, parent: int) -> None:
    kernel.adopt_orphans()
    kernel.die_with_parent(parent, signal.SIGTERM)
    for fd in (control, lifeline):
        os.set_inheritable(fd, False)
    sock = socket.socket(fileno=control)
    sock.setblocking(False)
    Keeper(sock, lifeline).run()
