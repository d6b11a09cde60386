"""What the tests of isolated processes share."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from taskyard import Yard
from tests.engine import isolated_kinds

LIMIT = 60.0


def isolated_yard(url: str) -> Yard:
    """A yard on this store with the kinds of tests.engine.isolated_kinds."""
    yard = Yard(url)
    for kind in isolated_kinds.yard.registry:
        yard.registry.add(kind)
    return yard


async def written(folder: Path, name: str) -> str:
    """What a body has written to this file, once it has."""
    async with asyncio.timeout(LIMIT):
        while not (folder / name).exists():  # noqa: ASYNC110 - other processes ring no bell
            await asyncio.sleep(0.005)
    return (folder / name).read_text()


async def body_of(folder: Path) -> psutil.Process:
    return psutil.Process(int(await written(folder, "pid")))


async def family_of(folder: Path) -> list[psutil.Process]:
    """The body and whatever it has started."""
    return [psutil.Process(pid) for pid in json.loads(await written(folder, "family"))]


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """A zombie is dead: it only waits for whoever has inherited it."""
    return [process for process in processes if process.is_running() and not _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def all_gone(processes: list[psutil.Process]) -> bool:
    async with asyncio.timeout(LIMIT):
        while alive(processes):  # noqa: ASYNC110 - nor do they when they end
            await asyncio.sleep(0.005)
    return True


@contextmanager
def other_worker(yard: Yard, lease: float = 30.0) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in another process, killed at the end."""
    command = [sys.executable, "-m", "tests.engine.isolated_worker", yard.url, str(lease)]
    with subprocess.Popen(command) as worker:
        try:
            yield worker
        finally:
            worker.kill()
