"""Runs the real program, in the foreground or as a worker in the background."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from taskyard import Task, Yard
from tests.cli.warm import Command, encoded, warm

T = TypeVar("T")

PATIENCE = 120.0
_OWN = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM", "TASKYARD_URL")


class Done(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line on stderr."""
        assert "Traceback" not in self.err
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        return self.err.rstrip("\n")


class Program:
    """`taskyard` in a folder of its own, where app.py is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "yard.db"
        self.url = f"sqlite:///{self.file}"

    def env(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _OWN}
        return {**kept, "TASKYARD_URL": self.url, "TZ": "UTC", "PYTHONUNBUFFERED": "1", **more}

    def try_to(self, *args: str, through: Sequence[str] = (), stdin: str = "", **env: str) -> Done:
        """Run it; `through` is a program that starts it in its own way."""
        sent = None if through else encoded(Command(args, str(self.folder), self.env(**env)), env)
        if sent is not None:
            code, out, err = warm().run(sent, stdin.encode(), PATIENCE)
            return Done(code, out.decode(), err.decode())
        command = [*through, sys.executable, "-m", "taskyard", *args]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env(**env),
            input=stdin.encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def __call__(self, *args: str, **env: str) -> str:
        """Run it; it must go well."""
        done = self.try_to(*args, **env)
        assert done.code == 0, done
        assert "Traceback" not in done.err
        return done.out

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "--json"))

    def enqueue(self, kind: str, *args: str) -> str:
        return self("enqueue", "app:yard", kind, *args).strip()

    def task(self, task_id: str) -> Any:
        return self.json("tasks", "show", task_id)

    def wait_for(self, task_id: str, state: str) -> Task:
        return self.until(lambda yard: yard.get(task_id), lambda task: task.state == state)

    def until(self, look: Callable[[Yard], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
        """Look at the yard, again with each hint of a change, until it is as wanted."""
        return asyncio.run(_until(self.url, look, wanted))

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "taskyard", *args],
            cwd=self.folder,
            env=self.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def worker(self, *args: str) -> Worker:
        return Worker(self.start("worker", "app:yard", *args))


async def _until(url: str, look: Callable[[Yard], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    changed = asyncio.Event()
    async with asyncio.timeout(PATIENCE), Yard(url) as yard:
        stop = yard.store.listen(lambda _: changed.set())
        while not wanted(seen := await look(yard)):
            await changed.wait()
            changed.clear()
        stop()
        return seen


class Worker:
    """A worker in the background; gone when the block ends."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()

    @property
    def log(self) -> str:
        with self._news:
            return "".join(self._lines)

    def line(self, *words: str) -> str:
        """Wait for a line of the log with all these words."""

        def found() -> str | None:
            return next((line for line in self._lines if all(w in line for w in words)), None)

        with self._news:
            assert self._news.wait_for(found, PATIENCE), self._lines
            line = found()
            assert line is not None
            return line

    def insist(self, number: signal.Signals) -> None:
        """Send it until it has gone: those that come close together count as one."""
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            self.signal(number)
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait until it has gone; its exit code."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def __enter__(self) -> Self:
        self.line("start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self._process.kill()
        self.end()
        self.close()

    def close(self) -> None:
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
