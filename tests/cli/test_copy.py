"""`taskyard copy`, as people use it."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM

import pytest

from tests.cli.program import Program
from tests.servers.urls import STORES, fresh_url

WAITS = {"waits": "told in seconds from now"}


@pytest.mark.parametrize("kind", STORES)
def test_a_yard_goes_to_another_store_and_on_there(taskyard: Program, kind: str) -> None:
    there = fresh_url(kind, taskyard.folder)
    waiting = taskyard.enqueue("greet", "name=x", "--delay", "3600")
    done = taskyard.enqueue("greet", "name=y")
    with taskyard.worker() as worker:
        taskyard.wait_for(done, "completed")
        worker.signal(SIGTERM)
        worker.end()

    told = taskyard("copy", taskyard.url, there)

    assert told == (f"copied 2 tasks: 1 pending, 1 completed\n{taskyard.url} stays paused\n")
    for task_id in (waiting, done):
        here = taskyard.task(task_id)
        assert taskyard.json("tasks", "show", task_id, "--url", there) | WAITS == here | WAITS


def test_it_refuses_while_a_worker_is_at_work(taskyard: Program) -> None:
    there = fresh_url("sqlite", taskyard.folder)
    with taskyard.worker("--node", "busy"):
        refused = taskyard.try_to("copy", taskyard.url, there)

    assert refused.code == 1
    assert "workers are running on the source: busy" in refused.complaint
    assert not taskyard.json("stats")["paused"]


def test_there_must_be_something_to_copy(taskyard: Program) -> None:
    refused = taskyard.try_to("copy", taskyard.url, fresh_url("sqlite", taskyard.folder))

    assert refused.code == 1
    assert "there is no yard" in refused.complaint
    assert not taskyard.file.exists()


def test_the_counts_come_as_json(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")

    counts = taskyard.json("copy", taskyard.url, fresh_url("sqlite", taskyard.folder))

    assert counts["queued"] == sum(counts.values()) == 1


def test_it_says_that_the_target_is_paused_like_the_source(taskyard: Program) -> None:
    there = fresh_url("sqlite", taskyard.folder)
    taskyard.enqueue("greet", "name=x")
    taskyard("pause")

    told = taskyard("copy", taskyard.url, there)

    assert told.endswith(f"{there} is paused too, as the source was before\n")
    assert taskyard.json("stats", "--url", there)["paused"]


def test_a_worker_that_was_killed_here_is_not_waited_for(taskyard: Program) -> None:
    with taskyard.worker() as worker:
        worker.signal(SIGKILL)
        worker.end()

    assert "copied 0 tasks" in taskyard("copy", taskyard.url, fresh_url("sqlite", taskyard.folder))
