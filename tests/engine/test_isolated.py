"""Isolated kinds: what they may be and do, in a process of their own."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Never

import psutil
import pytest

from taskyard import Reason, State, TaskFailed, Yard
from taskyard.domain.errors import InvalidHandler
from taskyard.engine.isolate import executor
from taskyard.engine.log import FIELDS
from taskyard.engine.registry import Style
from tests.engine import isolated_kinds
from tests.engine.isolated import all_gone, isolated_yard
from tests.engine.waits import ended, until, working


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with isolated_yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard


@pytest.mark.spec("engine-33")
async def test_plain_functions_and_coroutines_return_their_results(yard: Yard) -> None:
    async with working(yard):
        assert await (await yard.kind("add").enqueue(1)).result(20) == 3
        assert await (await yard.kind("add_async").enqueue(1, b=5)).result(20) == 6


@pytest.mark.spec("engine-33")
async def test_a_body_runs_in_a_process_that_serves_the_next_one_too(yard: Yard) -> None:
    async with working(yard):
        first = await (await yard.kind("where").enqueue()).result(20)
        second = await (await yard.kind("where").enqueue()).result(20)
    assert first == second
    assert os.getpid() not in first
    assert await all_gone([psutil.Process(pid) for pid in first if psutil.pid_exists(pid)])


@pytest.mark.spec("engine-33", "engine-34")
async def test_errors_come_with_their_stack_and_outcomes_as_they_are(yard: Yard) -> None:
    async with working(yard):
        broken = await ended(await yard.kind("broken").enqueue())
        hopeless = await ended(await yard.kind("hopeless").enqueue())
        leaving = await ended(await yard.kind("leaving").enqueue())
        assert await (await yard.kind("later").enqueue()).result(20) == "now"
    assert broken.error is not None
    assert (broken.error.type, broken.error.message) == ("LookupError", "nothing there")
    assert "isolated_kinds.py" in broken.error.stack
    assert (hopeless.state, hopeless.reason) == (State.FAILED, Reason.FATAL)
    assert leaving.error is not None
    assert leaving.error.type == "SystemExit"


@pytest.mark.spec("engine-19", "engine-33")
@pytest.mark.parametrize(
    ("kind", "note"), [("telling", "first"), ("telling_async", "from a thread")]
)
async def test_the_context_reaches_the_worker(yard: Yard, kind: str, note: str) -> None:
    async with working(yard):
        handle = await yard.kind(kind).enqueue()
        child = (await handle.result(20)).strip('"')
        assert await yard.handle(child).result(20) == 23
    progress = (await handle.task()).progress
    assert progress is not None
    assert (progress.total, progress.note) == (4, note)


@pytest.mark.spec("engine-33", "lifecycle-17")
async def test_what_a_body_logs_is_logged_by_its_worker(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with working(yard):
            handle = await yard.kind("telling").enqueue()
            await handle.result(20)
    [inside] = [each for each in caplog.records if "said inside" in each.getMessage()]
    fields = getattr(inside, FIELDS)
    assert (fields["task"], fields["figure"]) == (handle.id, 7)
    assert inside.process != os.getpid()
    assert ("an.application", logging.ERROR, "plain words") in caplog.record_tuples


async def test_what_the_worker_refuses_is_raised_in_the_body(yard: Yard) -> None:
    async with working(yard):
        task = await ended(await yard.kind("enqueues_nonsense").enqueue())
    assert task.error is not None
    assert task.error.type == "InvalidOption"
    assert "priority must be" in task.error.message


async def test_what_cannot_be_sent_is_the_error_of_the_body(yard: Yard) -> None:
    async with working(yard):
        task = await ended(await yard.kind("reports_nonsense").enqueue())
    assert task.error is not None
    assert task.error.type == "ValidationError"
    assert "Expected `float`, got `str`" in task.error.message


async def test_a_fork_that_a_body_makes_does_not_speak_for_it(yard: Yard) -> None:
    async with working(yard):
        handle = await yard.kind("forks").enqueue()
        assert await handle.result(20) == 0
    assert (await handle.task()).progress is None


async def test_a_machine_that_cannot_make_a_process_costs_no_task(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(yard) as worker:
        link = worker._bodies.processes._linked()
        with monkeypatch.context() as patched:
            patched.setattr(link, "fork", _no_room)
            handle = await yard.kind("add").options(retries=0).enqueue(1)
            task = await until(handle, State.PENDING)
            assert (task.reason, task.charged) == (Reason.SNOOZED, 0)
        assert await handle.result(20) == 3


async def _no_room(order: object) -> Never:
    raise OSError(errno.EMFILE, "too many open files")


async def test_a_child_killed_while_it_had_nothing_to_do_costs_no_task(yard: Yard) -> None:
    async with working(yard):
        [pid, _] = await (await yard.kind("where").enqueue()).result(20)
        os.kill(pid, signal.SIGKILL)
        handle = await yard.kind("where").enqueue()
        [other, _] = await handle.result(20)
    task = await handle.task()
    assert other != pid
    assert (task.attempt, task.charged, task.losses) == (1, 1, 0)


async def test_a_child_is_replaced_after_many_jobs(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "MAX_JOBS", 2)
    async with working(yard):
        pids = [(await (await yard.kind("where").enqueue()).result(20))[0] for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_a_child_with_nothing_to_do_goes_in_the_end(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "IDLE_SECONDS", 0.01)
    async with working(yard):
        [pid, _] = await (await yard.kind("where").enqueue()).result(20)
        assert not psutil.pid_exists(pid) or await all_gone([psutil.Process(pid)])
        assert (await (await yard.kind("where").enqueue()).result(20))[0] != pid


async def test_many_run_at_once_beside_each_other(yard: Yard) -> None:
    async with working(yard, slots=6):
        handles = [await yard.kind("add").enqueue(number) for number in range(60)]
        results = await asyncio.gather(*(handle.result(30) for handle in handles))
    assert results == [number + 2 for number in range(60)]


# --- declaring ---


@pytest.mark.spec("lifecycle-13")
def test_a_memory_limit_isolates_too(yard: Yard) -> None:
    assert yard.registry["hog"].style is Style.PROCESS
    assert yard.registry["add"].memory_limit == 500_000_000
    assert yard.registry["neighbour"].style is Style.COROUTINE


def test_a_function_inside_a_function_is_refused_where_it_is_declared(yard: Yard) -> None:
    with pytest.raises(InvalidHandler, match="declare it at the top of a module"):

        @yard.task(isolate=True)
        def nested() -> None: ...


def test_a_negative_limit_is_refused(yard: Yard) -> None:
    with pytest.raises(InvalidHandler, match="in bytes"):
        yard.task(memory_limit=-1)(os.getpid)


def test_a_function_that_is_not_declared_under_its_name_is_refused(tmp_path: Path) -> None:
    yard = Yard(f"sqlite:///{tmp_path / 'other.db'}")
    yard.task(isolate=True)(isolated_kinds.isolated_helper)
    with pytest.raises(InvalidHandler, match=r"isolated_kinds\.isolated_helper is not it"):
        yard.worker()


SCRIPT = """
import asyncio
from taskyard import Yard

yard = Yard("sqlite://:memory:")

@yard.task(isolate=True)
def work() -> None: ...

async def main() -> None:
    await work.enqueue()  # whoever only enqueues may
    await yard.work()

asyncio.run(main())
"""


def test_a_script_that_is_its_own_worker_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    assert "InvalidHandler: task work is isolated, but work stands in the script" in ran.stderr
    assert "move it to a module of its own" in ran.stderr


DETACHED = """
import asyncio, os, sys
from tests.engine.isolated import isolated_yard

async def main() -> None:
    async with isolated_yard("sqlite://:memory:") as yard:
        worker = yard.worker()
        await worker.start()
        result = await (await yard.kind("add").enqueue(1)).result(30)
        await worker.stop()
        os._exit(result)

assert sys.stderr is None
asyncio.run(main())
"""


def test_a_worker_needs_neither_output_nor_input() -> None:
    ran = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, DETACHED],
        timeout=60,
        check=False,
    )
    assert ran.returncode == 3


BROKEN = """
import os
from taskyard import Retry, Yard

yard = Yard("sqlite:///yard.db")
if "FAIL" in os.environ:
    raise LookupError("not on this machine")

@yard.task(isolate=True, retry=Retry.never())
def work() -> None: ...
"""


async def test_a_module_that_cannot_be_imported_again_fails_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_once.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    import imported_once  # type: ignore[import-not-found]

    monkeypatch.setenv("FAIL", "1")
    async with imported_once.yard as yard, working(yard):
        handle = await imported_once.work.enqueue()
        with pytest.raises(TaskFailed, match="LookupError: not on this machine") as caught:
            await handle.result(20)
    assert "imported_once.py" in caught.value.stack
