"""`taskyard logs`: what bodies have said, and what they are saying."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.program import PATIENCE, Program


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_lines_are_shown_attempt_by_attempt(taskyard: Program, pipe: Path) -> None:
    task_id = taskyard.enqueue("talk", f"pipe={pipe}")
    with taskyard.worker():
        pipe.write_text("\x1b[31m")
        taskyard.wait_for(task_id, "completed")

    shown = taskyard("logs", task_id).splitlines()

    assert [line.split("  ", 1)[-1].strip() for line in shown] == [
        "attempt 1",
        "info      begun attempt_so_far=1",
        "attempt 2",
        "info      begun attempt_so_far=2",
        "warning   read",
        "in two lines: \\x1b[31m password=***",
    ]
    lines = taskyard.json("logs", task_id)
    assert [(line["attempt"], line["number"], line["level"]) for line in lines] == [
        (1, 1, "info"),
        (2, 1, "info"),
        (2, 2, "warning"),
    ]
    assert lines[0]["at"].endswith("Z")
    assert taskyard.json("logs", task_id, "--attempt", "1") == lines[:1]
    assert taskyard.json("logs", task_id, "--attempt", "2") == lines[1:]
    assert taskyard.json("logs", task_id, "--attempt", "3") == []


def test_lines_are_followed_until_the_task_has_ended(taskyard: Program, pipe: Path) -> None:
    task_id = taskyard.enqueue("talk", f"pipe={pipe}")
    with (
        taskyard.worker("--keep-logs", "debug"),
        taskyard.start("logs", task_id, "--follow", "--json") as following,
    ):
        assert following.stdout is not None
        before = [json.loads(following.stdout.readline()) for _ in range(4)]
        assert [line["text"] for line in before] == [
            *("begun attempt_so_far=1", "a detail"),
            *("begun attempt_so_far=2", "a detail"),
        ]
        pipe.write_text("x")
        [last] = [json.loads(line) for line in following.stdout]
        assert last["text"] == "read\nin two lines: x password=***"
        assert following.wait(PATIENCE) == 0
    assert len(taskyard("logs", task_id, "-f").splitlines()) == 8


def test_nothing_is_kept_unless_it_is_wanted(taskyard: Program, pipe: Path) -> None:
    (taskyard.folder / "taskyard.toml").write_text('[log]\nkeep = "off"\n')
    task_id = taskyard.enqueue("talk", f"pipe={pipe}")
    with taskyard.worker():
        pipe.write_text("x")
        taskyard.wait_for(task_id, "completed")
    assert taskyard("logs", task_id) == ""
    assert taskyard.json("logs", task_id) == []


def test_a_task_that_is_not_there_has_no_logs(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    for more in ((), ("--follow",)):
        done = taskyard.try_to("logs", "nobody", *more)
        assert done.code == 3
        assert done.complaint == "error: there is no task nobody"


def test_a_level_that_is_not_known_is_refused(taskyard: Program) -> None:
    done = taskyard.try_to("worker", "app:yard", TASKYARD_LOG_KEEP="loud")
    assert done.code == 6
    assert "log.keep" in done.complaint
