"""A page as a reader follows it: its files are written, its commands typed, their output compared.

A block of Python that begins with `# name.py` is a file. In a block of console what stands behind
`$ ` is typed, and what follows is what must be shown; `…` stands for anything within a line.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from taskyard import Yard
from tests.cli.program import PATIENCE, Worker

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.py)\n")
SERVER = "http://127.0.0.1:8321"  # where a reader's is


class Typed(msgspec.Struct, frozen=True):
    """A command, and what a reader is told to see."""

    words: list[str]
    shown: str


class Written(msgspec.Struct, frozen=True):
    path: str
    text: str


def steps(page: str) -> Iterator[Typed | Written]:
    for language, text in BLOCK.findall(page):
        if language == "python":
            if name := FILE.match(text):
                yield Written(name[1], text)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield Typed(shlex.split(command), shown)


class Session:
    """A reader's folder and two terminals: one for commands, one for what goes on running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: Worker | None = None
        self._base = SERVER
        others = {name: v for name, v in os.environ.items() if not name.startswith("TASKYARD_")}
        self._environ = {
            **others,
            "COLUMNS": "120",  # of the terminal in which the pages were written
            "PYTHONUNBUFFERED": "1",
            # Which the reader was not told to install.
            "PYTEST_ADDOPTS": "-p no:asyncio -p no:schemathesis -p no:hypothesispytest",
            "TASKYARD_SERVER_PORT": "0",  # any that is free
        }

    def follow(self, step: Typed | Written) -> None:
        match step:
            case Written(path, text):
                (self._folder / path).write_text(text, "utf-8")
            case Typed(["taskyard", "worker" | "serve", *_]):
                self._run_on(step)
            case Typed():
                asyncio.run(self._type(step))

    async def _type(self, step: Typed) -> None:
        """What a worker does takes its time: look again whenever something has changed."""
        once = step.words[0] == "python" or step.words[1] == "enqueue" or "cancel" in step.words
        changed = asyncio.Event()
        async with asyncio.timeout(PATIENCE), Yard(f"sqlite:///{self._folder}/yard.db") as yard:
            stop = yard.store.listen(lambda _: changed.set())
            while not matches(seen := await asyncio.to_thread(self._output, step), step.shown):
                assert not once, f"{shlex.join(step.words)}:\n{seen}"
                await _or_give_up(changed, seen)
                changed.clear()
            stop()

    def _output(self, step: Typed) -> str:
        words = [word.replace(SERVER, self._base) for word in step.words]
        done = subprocess.run(
            [sys.executable, *python_arguments(words)],
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout

    def _run_on(self, step: Typed) -> None:
        self.stop()
        process = subprocess.Popen(
            [sys.executable, *python_arguments(step.words)],
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running = Worker(process)
        self._running.line("start", "node=")
        if "serve" not in step.words:
            assert matches(self._running.log, step.shown), self._running.log
            return
        assert process.stdout is not None
        seen = "".join(process.stdout.readline() for _ in step.shown.splitlines())
        assert matches(seen, step.shown), seen
        self._base = seen.split()[1]

    def stop(self) -> None:
        """Ctrl-C in the second terminal."""
        if self._running is not None:
            self._running.signal(signal.SIGINT)
            assert self._running.end() == 0, self._running.log
            self._running.close()
            self._running = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.signal(signal.SIGKILL)
            self._running.end()
            self._running.close()


async def _or_give_up(changed: asyncio.Event, seen: str) -> None:
    try:
        await changed.wait()
    except asyncio.CancelledError:
        raise AssertionError(f"this is all that was to be seen:\n{seen}") from None


def python_arguments(words: list[str]) -> list[str]:
    match words:
        case ["taskyard", *rest]:
            return ["-m", "taskyard", *rest]
        case ["python", *rest]:
            return rest
        case _:
            raise AssertionError(f"a reader is told to type {shlex.join(words)}")


def matches(seen: str, shown: str) -> bool:
    """Line by line, however wide the columns of a table are; `…` is anything."""
    told = [" ".join(line.split()) for line in shown.strip().splitlines()]
    found = [" ".join(line.split()) for line in seen.strip().splitlines()]
    if len(told) != len(found):
        return False
    return all(
        re.fullmatch(".*".join(map(re.escape, line.split("…"))), other)
        for line, other in zip(told, found, strict=True)
    )
