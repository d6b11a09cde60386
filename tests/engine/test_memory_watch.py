"""What a worker uses, and what it does when that is too much."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from taskyard import State, Yard
from taskyard.domain.errors import InvalidOption
from taskyard.domain.node import Usage
from taskyard.engine.worker import EXIT_MEMORY
from tests.engine.waits import found, working
from tests.servers.urls import STORES, fresh_url

TINY = 1_000_000  # bytes: every worker is over it


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard


@pytest.mark.spec("lifecycle-13")
async def test_over_its_limit_a_worker_lets_bodies_finish_and_leaves(yard: Yard) -> None:
    go, began = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def careful() -> str:
        began.set()
        await go.wait()
        return "finished"

    worker = yard.worker(memory_limit=10**12)
    handle = await careful.enqueue()
    working_on = asyncio.create_task(worker.run_until(asyncio.Event()))
    await began.wait()
    worker._memory_limit = TINY  # noticed with the next beat

    async def draining() -> bool | None:
        return [node.state for node in await yard.nodes()] == ["draining"] or None

    await found(yard, draining)
    assert worker.is_worn_out
    late = await careful.enqueue()
    go.set()
    assert await working_on == EXIT_MEMORY
    assert await handle.result(20) == "finished"
    assert await late.status() is State.QUEUED
    assert await yard.nodes() == []


@pytest.mark.spec("lifecycle-13")
def test_its_supervisor_is_told_by_the_exit_code(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from taskyard import Yard; "
        f"asyncio.run(Yard(sys.argv[1]).work(memory_limit={TINY}))"
    )
    url = f"sqlite:///{tmp_path / 'yard.db'}"
    ended = subprocess.run([sys.executable, "-c", code, url], timeout=60, check=False)
    assert ended.returncode == EXIT_MEMORY


async def test_within_its_limit_it_stays(yard: Yard) -> None:
    async with working(yard, memory_limit=10**12) as worker:
        first = worker._membership._heartbeat.renewed

        async def renewed() -> bool | None:
            return worker._membership._heartbeat.renewed > first or None

        await found(yard, renewed)
        assert worker._meter.resident > TINY
        assert not worker.is_worn_out


@pytest.mark.spec("lifecycle-16")
@pytest.mark.parametrize("store", STORES)
async def test_each_beat_tells_what_the_worker_uses(store: str, tmp_path: Path) -> None:
    async with (
        Yard(fresh_url(store, tmp_path)) as yard,
        working(yard) as worker,
    ):

        async def told() -> Usage | None:
            [node] = await yard.nodes()
            return node.usage

        usage = await found(yard, told)
        resident = worker._meter.resident
    assert usage.memory >= resident / 2 > 0
    assert usage.processes >= 1
    assert 0 <= usage.cpu < 100


async def test_a_limit_is_a_number_of_bytes(yard: Yard) -> None:
    with pytest.raises(InvalidOption, match="memory_limit is in bytes"):
        yard.worker(memory_limit=0)


MEASURE = """
import msgspec, subprocess, sys
from taskyard.engine.usage import Meter

meter = Meter()
before = meter.measure()
command = [sys.executable, "-c", "print('up', flush=True); input()"]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    during = meter.measure()
    own = meter.resident
    child.kill()
print(msgspec.json.encode((before, during, own)).decode())
"""


@pytest.mark.spec("lifecycle-16", "lifecycle-13")
def test_processes_that_were_started_are_counted_but_are_not_the_workers_own() -> None:
    said = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, check=True)
    before, during, own = msgspec.json.decode(said.stdout, type=tuple[Usage, Usage, int])
    assert (before.processes, during.processes) == (1, 2)
    assert during.memory >= own + TINY
    assert during.read_bytes >= before.read_bytes


CORES = """
import msgspec
from taskyard.engine import usage

moments = iter([100.0, 110.0])
usage.time.monotonic = lambda: next(moments)
meter = usage.Meter()
meter._cpu -= 5.0  # as if five seconds of it had been used since
print(msgspec.json.encode(meter.measure()).decode())
"""


@pytest.mark.spec("lifecycle-16")
def test_cpu_is_in_cores_since_the_last_look() -> None:
    """In a process that has started no others, so that only its own time is counted."""
    said = subprocess.run([sys.executable, "-c", CORES], capture_output=True, check=True)
    usage = msgspec.json.decode(said.stdout, type=Usage)
    assert 0.5 <= usage.cpu < 1.0
