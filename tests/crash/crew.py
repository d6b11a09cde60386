"""The processes of a crash run, started from a warm server: a new one takes milliseconds."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.crash import enqueuer, worker
from tests.crash.enqueuer import EnqueuerOptions
from tests.crash.record import Line, Recorder, Tail, What
from tests.crash.worker import WorkerOptions

PATIENCE = 30.0  # seconds a test waits for what must happen
_LOOK = 0.01

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.crash.worker", "tests.crash.enqueuer"])


class Member:
    """One process of ours."""

    def __init__(self, process: ForkServerProcess, node: str, recorder: Recorder) -> None:
        assert process.pid is not None
        self.process = process
        self.pid = process.pid
        self.node = node
        self.frozen = False
        self._recorder = recorder

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """Negative: the signal that ended it."""
        return self.process.exitcode

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for its end; answers its exit code."""
        self.process.join(seconds)
        code = self.process.exitcode
        assert code is not None, f"{self.node} has not ended within {seconds:g} s"
        return code

    def kill(self) -> None:
        """Recorded before it is sent: nobody can have noticed the death earlier."""
        self._recorder.write(What.KILL, pid=self.pid)
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def freeze(self) -> bool:
        """Says whether it is frozen by this call; not if it was already, or has ended."""
        if self.frozen or not self.alive:
            return False
        os.kill(self.pid, signal.SIGSTOP)
        wait_for(lambda: _state(self.pid) in "TZ", f"{self.node} to be frozen")
        self._recorder.write(What.STOP, pid=self.pid)
        self.frozen = True
        return True

    def thaw(self) -> None:
        if self.frozen:
            self._recorder.write(What.CONT, pid=self.pid)
            self.frozen = False
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)


class Crew:
    """Starts processes on one store and keeps its record."""

    def __init__(self, folder: Path, *, url: str | None = None, log: bool = False) -> None:
        self.folder = folder
        self.url = url or f"sqlite:///{folder / 'yard.db'}"
        self.record = folder / "record.jsonl"
        self.recorder = Recorder(self.record, "crew")
        self.members: list[Member] = []
        self._log = str(folder / "worker.log") if log else None
        self._tail = Tail(self.record)
        self._lines: list[Line] = []

    def worker(self, node: str = "w", **options: Any) -> Member:
        """Options as of WorkerOptions. The node's name is the same for each life of a worker."""
        wanted = WorkerOptions(
            url=self.url, record=str(self.record), node=node, log=self._log, **options
        )
        return self._start(worker.run, wanted, node)

    def enqueuer(self, seed: str, **options: Any) -> Member:
        wanted = EnqueuerOptions(url=self.url, record=str(self.record), seed=seed, **options)
        return self._start(enqueuer.run, wanted, f"enqueuer-{seed}")

    def _start(self, target: Callable[..., None], options: object, node: str) -> Member:
        process = _context.Process(target=target, args=(options,), name=node, daemon=True)
        process.start()
        member = Member(process, node, self.recorder)
        self.members.append(member)
        return member

    def forget(self, member: Member) -> None:
        """It has ended and was replaced."""
        self.members.remove(member)
        member.process.close()

    def lines(self) -> list[Line]:
        """The whole record so far."""
        self._lines += self._tail.fresh()
        return self._lines

    def find(self, what: What, *, task: str = "", attempt: int = 0, pid: int = 0) -> list[Line]:
        return [
            line
            for line in self.lines()
            if line.what is what
            and (not task or line.task == task)
            and (not attempt or line.attempt == attempt)
            and (not pid or line.pid == pid)
        ]

    def await_line(self, what: What, *, seconds: float = PATIENCE, **about: Any) -> Line:
        """Wait until the record has such a line."""
        wait_for(lambda: bool(self.find(what, **about)), f"{what} of {about}", seconds)
        return self.find(what, **about)[0]

    def stop(self) -> None:
        """End every process that is left, and nothing else."""
        for member in self.members:
            if member.alive:
                os.kill(member.pid, signal.SIGKILL)
            member.wait()
            member.process.close()
        self.members.clear()
        self.recorder.close()


def wait_for(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(_LOOK)


def _state(pid: int) -> str:
    """T is stopped, Z has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
    return stat[stat.rindex(")") + 2]
