"""The worker as a process: signals, logs, what it serves."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from taskyard.engine.worker import EXIT_MEMORY
from tests.cli.program import Program


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.spec("engine-24")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_bodies_finish_and_claims_nothing_more(
    taskyard: Program, pipe: Path, number: signal.Signals
) -> None:
    task_id = taskyard.enqueue("read", f"pipe={pipe}")
    with taskyard.worker() as worker:
        with pipe.open("w") as written:  # opens when the body reads
            worker.signal(number)
            worker.line("drain", "grace=30", "running=1")
            _wait_until_draining(taskyard)
            late = taskyard.enqueue("greet", "name=late")
            written.write("done")
        assert worker.end() == 0
        assert "Traceback" not in worker.log
    assert taskyard.task(task_id)["result"] == "done"
    assert taskyard.task(late)["state"] == "queued"
    assert taskyard.json("stats")["workers"] == []


@pytest.mark.spec("engine-24")
def test_what_does_not_finish_within_the_grace_time_is_released_uncharged(
    taskyard: Program,
) -> None:
    task_id = taskyard.enqueue("hold")
    with taskyard.worker("--grace", "0.1") as worker:
        taskyard.wait_for(task_id, "running")
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
    task = taskyard.task(task_id)
    assert (task["state"], task["reason"], task["charged"]) == ("queued", "released", 0)


@pytest.mark.spec("engine-24")
def test_a_second_signal_stops_at_once(taskyard: Program, pipe: Path) -> None:
    task_id = taskyard.enqueue("read", f"pipe={pipe}")
    with taskyard.worker() as worker:
        with pipe.open("w"):  # opens when the body reads
            worker.signal(signal.SIGTERM)
            _wait_until_draining(taskyard)
            worker.insist(signal.SIGTERM)
            assert worker.end() == 130
        assert "Traceback" not in worker.log
    assert taskyard.task(task_id)["state"] == "running"
    with taskyard.worker():  # frees its dead predecessor, and runs what it held
        taskyard.until(lambda yard: yard.get(task_id), lambda task: task.attempt == 2)
        pipe.write_text("done")
        taskyard.wait_for(task_id, "completed")


def test_a_body_that_does_not_stop_cannot_keep_the_worker(taskyard: Program) -> None:
    task_id = taskyard.enqueue("stubborn")
    with taskyard.worker("--grace", "0.1", "--log-level", "debug") as worker:
        worker.line("claim", task_id)
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
        assert "left behind" in worker.log


@pytest.mark.spec("engine-24")
def test_a_thread_that_a_body_left_behind_cannot_keep_the_worker(taskyard: Program) -> None:
    tasks = [taskyard.enqueue("delegate") for _ in range(2)]
    with taskyard.worker("--grace", "0.1") as worker:
        for task_id in tasks:
            taskyard.wait_for(task_id, "running")
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
    assert [taskyard.task(task_id)["state"] for task_id in tasks] == ["queued", "queued"]
    assert taskyard.json("stats")["workers"] == []


@pytest.mark.spec("lifecycle-13")
def test_over_its_memory_limit_a_worker_leaves_with_a_code_of_its_own(
    taskyard: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKYARD_WORKER_MEMORY_LIMIT", "1MB")
    with taskyard.worker("--lease", "0.5") as worker:
        assert worker.end() == EXIT_MEMORY
        assert "over its memory limit" in worker.log


def test_logs_are_structured(taskyard: Program) -> None:
    with taskyard.worker("--log-format", "json", "--node", "my-node") as worker:
        said = json.loads(worker.line("start"))
        assert (said["event"], said["node"], said["level"]) == ("start", "my-node", "info")
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
        assert [json.loads(line)["event"] for line in worker.log.splitlines()][-1] == "stop"


def test_logs_can_be_made_quiet(taskyard: Program) -> None:
    task_id = taskyard.enqueue("hold")
    worker = taskyard.worker("--log-level", "error")
    taskyard.wait_for(task_id, "running")
    worker.signal(signal.SIGKILL)
    worker.end()
    assert worker.log == ""
    worker.close()


def test_only_the_named_kinds_are_served(taskyard: Program) -> None:
    other = taskyard.enqueue("greet", "name=x")
    wanted = taskyard.enqueue("fail")
    with taskyard.worker("--kinds", "fail"):
        taskyard.wait_for(wanted, "failed")
    assert taskyard.task(other)["state"] == "queued"


def test_what_the_application_prints_while_imported_is_not_our_output(taskyard: Program) -> None:
    app = taskyard.folder / "app.py"
    app.write_text(f"print('hello from the application')\n{app.read_text()}".replace(
        "from __future__ import annotations\n", ""
    ))  # fmt: skip
    assert len(taskyard.enqueue("greet", "name=x").split()) == 1


def _wait_until_draining(taskyard: Program) -> None:
    taskyard.until(lambda yard: yard.nodes(), lambda nodes: nodes[0].state == "draining")
