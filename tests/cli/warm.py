"""Starts the program quickly: each in a process of its own, forked from one that has read it.

Reading the program from the disk takes longer than most commands do.
"""

from __future__ import annotations

import io
import os
import runpy
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import msgspec

_FOR_THE_INTERPRETER = ("PYTHON", "LANG", "LC_")  # it reads these when it starts
_WHEN_NEEDED = (
    *("rich.traceback", "structlog", "taskyard.cli.remote", "taskyard.engine.isolate.executor"),
    *(f"taskyard.store.{kind}.store" for kind in ("postgres", "redis", "sqlite")),
)
_LARGEST = 100_000  # bytes of a command and its environment


class Command(msgspec.Struct, frozen=True):
    args: Sequence[str]
    folder: str
    env: Mapping[str, str]


def encoded(command: Command, env: Mapping[str, str]) -> bytes | None:
    """As it is sent. None: such a command, or such an environment, needs a new interpreter."""
    if any(name.startswith(_FOR_THE_INTERPRETER) for name in env):
        return None
    try:
        sent = msgspec.json.encode(command)
    except UnicodeEncodeError:
        return None
    return sent if len(sent) <= _LARGEST else None


@cache
def warm() -> Warm:
    return Warm()


class Warm:
    """The process that is forked from; one command at a time."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True).start()
        theirs.close()

    def run(self, sent: bytes, stdin: bytes, seconds: float) -> tuple[int, bytes, bytes]:
        with (
            tempfile.TemporaryFile() as read,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            read.write(stdin)
            read.seek(0)
            self._line.settimeout(seconds)
            socket.send_fds(self._line, [sent], [read.fileno(), out.fileno(), err.fileno()])
            code = os.waitstatus_to_exitcode(int(self._line.recv(64)))
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()


def _serve(line: socket.socket) -> None:
    """Whatever a command imports when it is needed is read here; none of it starts a thread."""
    for module in _WHEN_NEEDED:
        import_module(module)
    from taskyard.cli.main import run

    for command in ("--help", "config"):
        with redirect_stdout(io.StringIO()), suppress(SystemExit):
            run([command])
    while True:
        sent, streams, _, _ = socket.recv_fds(line, _LARGEST, 3)
        if not sent:
            return
        pid = os.fork()
        if not pid:
            line.close()
            _become(msgspec.json.decode(sent, type=Command), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        line.send(str(status).encode())


def _become(command: Command, streams: Sequence[int]) -> None:
    """As `python -m taskyard` would find things."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.env)
    time.tzset()
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True
    )
    sys.argv = [str(Path(sys.executable).with_name("taskyard")), *command.args]
    sys.path[0] = command.folder
    code: object = 0
    try:
        runpy.run_module("taskyard", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
