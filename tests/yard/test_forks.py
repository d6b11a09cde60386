"""A yard that was used before a fork is of use on both sides of it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import apsw
import pytest

from taskyard import State, Yard
from tests.servers.urls import STORES, fresh_url

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spec("engine-35")

# Python 3.12 and newer say so whenever a process with threads forks; that is what is tried here.
ignored = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

of_children: Yard | None = None


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def yard(url: str) -> Iterator[Yard]:
    yard = Yard(url)

    @yard.task()
    async def work(who: str) -> None: ...

    yield yard
    yard.sync.close()


def in_a_child(yard: Yard) -> int:
    """The exit code of a forked process that enqueues."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            yard.kind("work").sync.enqueue("child")
            code = 0
        finally:
            os._exit(code)
    return exit_code(pid)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@ignored
def test_the_child_has_connections_of_its_own(yard: Yard) -> None:
    yard.kind("work").sync.enqueue("parent")
    assert [in_a_child(yard) for _ in range(3)] == [0, 0, 0]
    yard.kind("work").sync.enqueue("parent again")

    assert yard.sync.counts()[State.QUEUED] == 5


@ignored
async def test_a_fork_under_a_running_loop(yard: Yard) -> None:
    """What is open on the loop of the parent is left alone by the child."""
    async with yard:
        await yard.kind("work").enqueue("parent")
        worker = yard.worker(kinds=["work"])
        await worker.start()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                thread = threading.Thread(target=lambda: yard.kind("work").sync.enqueue("child"))
                thread.start()
                thread.join()
                code = 0
            finally:
                os._exit(code)
        handle = await yard.kind("work").enqueue("parent again")
        await handle.result(20)
        assert await asyncio.to_thread(exit_code, pid) == 0
        await worker.stop()
        assert sum((await yard.counts()).values()) == 3


def enqueue_in_pool(number: int) -> str:
    assert of_children is not None
    return of_children.kind("work").sync.enqueue(f"child {number}").id


@ignored
def test_a_pool_of_forked_processes(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "of_children", yard)
    yard.kind("work").sync.enqueue("parent")
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        ids = set(pool.map(enqueue_in_pool, range(8)))

    assert len(ids) == 8
    assert yard.sync.counts()[State.QUEUED] == 9


def test_a_preforking_server_under_load(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.yard.prefork", url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    yard = Yard(url)
    assert yard.sync.counts()[State.QUEUED] == int(done.stdout)
    yard.sync.close()
    if url.startswith("sqlite:"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        assert db.pragma("integrity_check") == "ok"
        db.close()
