"""The outside record: what really happened, in a file that is not the store under test.

One line an event, each a single small write with O_APPEND, so that lines of many processes never
mix and a process that is killed leaves at most one torn line behind it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec


class What(StrEnum):
    UP = "up"  # a worker has asked for its first tasks
    START = "start"  # of a body
    END = "end"  # of a body
    NOTE = "note"  # something a body wants known
    SAVED = "saved"  # an enqueue has returned
    KILL = "kill"  # SIGKILL is about to be sent
    DYING = "dying"  # the process is about to kill itself
    LEFT = "left"  # the engine ends its own process
    STOP = "stop"  # SIGSTOP has been sent and has taken effect
    CONT = "cont"  # SIGCONT is about to be sent
    DOWN = "down"  # the process is about to end in good order


DEATHS = frozenset({What.KILL, What.DYING, What.LEFT, What.DOWN})


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    what: What
    at: int  # nanoseconds since boot: one clock for all processes, never set
    wall: int  # microseconds since the epoch, as the store counts
    pid: int
    node: str = ""
    task: str = ""
    attempt: int = 0
    keys: tuple[str, ...] = ()
    lane: str = ""
    how: str = ""


_decoder = msgspec.json.Decoder(Line)


def boot_now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_now() -> int:
    """Not by `time.time`, which a worker with a wrong clock has put wrong."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1000


class Recorder:
    """Appends to the record; safe from any thread."""

    def __init__(self, path: Path | str, node: str = "") -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._node = node

    def write(
        self,
        what: What,
        *,
        pid: int | None = None,
        task: str = "",
        attempt: int = 0,
        keys: Sequence[str] = (),
        lane: str = "",
        how: str = "",
    ) -> Line:
        line = Line(
            what=what,
            at=boot_now(),
            wall=wall_now(),
            pid=os.getpid() if pid is None else pid,
            node=self._node,
            task=task,
            attempt=attempt,
            keys=tuple(keys),
            lane=lane,
            how=how,
        )
        # A newline on both sides: a torn line spoils nothing but itself.
        os.write(self._fd, b"\n" + msgspec.json.encode(line) + b"\n")
        return line

    @contextmanager
    def body(self, task: str, attempt: int, keys: Sequence[str], lane: str) -> Iterator[None]:
        """From the first to the last thing a body does, and how it ended."""
        self.write(What.START, task=task, attempt=attempt, keys=keys, lane=lane)
        how = "ok"
        try:
            yield
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            self.write(What.END, task=task, attempt=attempt, keys=keys, lane=lane, how=how)

    def close(self) -> None:
        os.close(self._fd)


class Tail:
    """Reads a record while it is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.torn = 0

    def fresh(self) -> list[Line]:
        """The lines that have come since the last look."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return list(self._decoded(whole))

    def _decoded(self, texts: Sequence[bytes]) -> Iterator[Line]:
        for text in texts:
            if not text:
                continue
            try:
                yield _decoder.decode(text)
            except msgspec.DecodeError:
                self.torn += 1


def read(path: Path) -> list[Line]:
    return Tail(path).fresh()
