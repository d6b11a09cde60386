"""Keys, workers, the audit trail, the switch of the whole yard, and top."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.cli.program import PATIENCE, Program


@pytest.mark.spec("lifecycle-14")
def test_keys_are_limited_listed_and_freed_again(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--id", "first", "--key", "host:a")
    assert taskyard.json("keys", "limit", "host:*", "4")[0]["limit"] == 4
    assert taskyard("keys", "rules").split() == ["keys", "limit", "host:*", "4"]
    assert taskyard("keys", "limit", "host:*", "none").startswith("no rules")
    assert taskyard.json("keys", "rules") == []


def test_who_holds_a_key_and_who_waits(taskyard: Program) -> None:
    with taskyard.worker():
        first = taskyard.enqueue("hold", "--key", "k")
        taskyard.wait_for(first, "running")
        taskyard.enqueue("hold", "--key", "k")
        [key] = taskyard.json("keys", "list")
        assert (key["name"], key["limit"], key["holders"]) == ("k", 1, [first])
        assert first in taskyard("keys", "list")
        taskyard("tasks", "cancel", first)


@pytest.mark.parametrize("wrong", ["many", "1.5", ""])
def test_a_limit_is_a_number_or_none(taskyard: Program, wrong: str) -> None:
    taskyard.enqueue("greet", "name=x")
    done = taskyard.try_to("keys", "limit", "k", wrong)
    assert done.code == 2
    assert "a limit takes a number or none" in done.complaint


def test_workers_are_listed_with_what_they_serve(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    assert taskyard("workers") == "no workers\n"
    with taskyard.worker("--node", "w1", "--slots", "3", "--capabilities", "gpu,big"):
        [worker] = taskyard.json("workers")
        assert (worker["id"], worker["slots"]) == ("w1", 3)
        assert set(worker["capabilities"]) == {"gpu", "big"}
        assert "w1" in taskyard("workers")


@pytest.mark.spec("lifecycle-17")
def test_the_audit_trail_goes_back_page_by_page(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--id", "first", "--delay", "100")
    taskyard("tasks", "prioritize", "first", "1")
    taskyard("tasks", "cancel", "first")
    [cancelled, prioritized] = taskyard.json("audit", "--limit", "2")
    assert (cancelled["action"], prioritized["action"]) == ("cancel", "prioritize")
    assert cancelled["actor"].startswith("cli:")
    [older] = taskyard.json("audit", "--limit", "1", "--before", str(cancelled["no"]))
    assert older == prioritized
    assert "task:first" in taskyard("audit")


@pytest.mark.spec("lifecycle-7")
def test_tasks_are_listed_by_when_they_were_created(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--id", "first")
    [first] = taskyard.json("tasks", "list", "--since", "1h")
    assert first["id"] == "first"
    assert taskyard.json("tasks", "list", "--until", "1h") == []
    created = first["created_at"]
    assert taskyard.json("tasks", "list", "--since", created) == [first]
    assert taskyard.json("tasks", "list", "--until", created) == []
    assert taskyard.json("tasks", "list", "--since", "2999-01-01") == []


def test_a_time_is_an_age_or_a_date(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    done = taskyard.try_to("tasks", "list", "--since", "yesterday")
    assert done.code == 2
    assert "--since takes an age such as 90m" in done.complaint


@pytest.mark.spec("lifecycle-2")
def test_the_whole_yard_is_paused_and_goes_on(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--id", "first")
    assert taskyard("pause") == "the yard is paused\n"
    assert "the yard is paused" in taskyard("tasks", "explain", "first")
    with taskyard.worker():
        assert taskyard.json("resume") == {"paused": False}
        taskyard.wait_for("first", "completed")


def test_completion_is_there_for_shells(taskyard: Program) -> None:
    asked = {"_TASKYARD_COMPLETE": "complete_bash", "COMP_WORDS": "taskyard la", "COMP_CWORD": "1"}
    assert taskyard(**asked).split() == ["lanes"]
    script = taskyard(_TASKYARD_COMPLETE="source_bash")
    assert "COMP_WORDS" in script


# --- top ---


class Screen:
    """The program in a terminal of its own."""

    def __init__(self, program: Program, *args: str) -> None:
        self._screen, inside = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "taskyard", *args],
            cwd=program.folder,
            env=program.env(TERM="xterm", COLUMNS="120", LINES="40"),
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)

    def until(self, word: str) -> str:
        shown, end = "", time.monotonic() + PATIENCE
        while word not in shown:
            assert select.select([self._screen], [], [], end - time.monotonic())[0], shown
            shown += os.read(self._screen, 65536).decode(errors="replace")
        return shown

    def press(self, key: str) -> None:
        os.write(self._screen, key.encode())

    def end(self) -> int:
        """Read what is left, so that it need not wait for a reader."""
        while select.select([self._screen], [], [], PATIENCE)[0]:
            try:
                if not os.read(self._screen, 65536):
                    break
            except OSError:
                break  # nobody is at the other side any more
        os.close(self._screen)
        return self.process.wait(PATIENCE)


def test_top_shows_what_runs_and_leaves_with_q(taskyard: Program) -> None:
    with taskyard.worker("--node", "w1"):
        task_id = taskyard.enqueue("hold")
        taskyard.wait_for(task_id, "running")
        screen = Screen(taskyard, "top", "--every", "0.2")
        screen.until(task_id)
        screen.until("w1")
        screen.press("q")
        assert screen.end() == 0


def test_top_needs_a_terminal(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    done = taskyard.try_to("top")
    assert done.code == 2
    assert "top needs a terminal" in done.complaint
