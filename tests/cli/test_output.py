"""How it looks: aligned, not broken at 80 columns, plain in a pipe, and safe."""

from __future__ import annotations

import json
import signal

import pytest

from taskyard.store.passwords import without_secrets
from tests.cli.program import Program

NASTY = "[bold]x[/bold] \x1b[31mred\x1b[0m \x07\x9b2J \u202eback\r"


@pytest.mark.spec("security-15")
def test_what_tasks_say_cannot_drive_the_terminal(taskyard: Program) -> None:
    args = json.dumps({"message": NASTY})
    task_id = taskyard.enqueue("fail", "--args", args)
    with taskyard.worker():
        taskyard.wait_for(task_id, "failed")
        waited = taskyard.try_to("enqueue", "app:yard", "fail", "--args", args, "--wait")
    page = taskyard("tasks", "show", task_id)
    listed = taskyard("tasks", "list")
    told = taskyard("tasks", "show", task_id, "--json")
    for text in (page, listed, told, waited.complaint):
        assert not set(text) & set("\x1b\x07\x9b\u202e\r")
        assert "[bold]x[/bold]" in text
    assert r"\x1b[31mred\x1b[0m \x07\x9b2J \u202eback\r" in page
    assert json.loads(told)["payload"]["message"] == NASTY


def test_nothing_is_wider_than_80_columns_in_a_terminal_of_80(taskyard: Program) -> None:
    name = "a_name_that_is_far_too_long_for_any_column_it_could_stand_in"
    taskyard.enqueue("greet", "name=x", "--id", "first", "--lane", name, "--key", name)
    taskyard.enqueue("fail_for_now", "--lane", "downloads", "--delay", "7000")
    taskyard("lanes", "pause", name, "--reason", "because " * 20)
    for command in ("tasks list", "stats", "lanes list", "tasks show first", "tasks explain first"):
        shown = taskyard(*command.split(), COLUMNS="80")
        assert max(map(len, shown.splitlines())) <= 80, shown


def test_ids_are_whole_at_80_columns(taskyard: Program) -> None:
    task_id = taskyard.enqueue("fail_for_now", "--lane", "downloads", "--delay", "7000")
    assert task_id in taskyard("tasks", "list", COLUMNS="80")


def test_a_pipe_gets_whole_lines_without_colour(taskyard: Program) -> None:
    name = "a_lane_with_a_name_that_would_not_fit_into_eighty_columns_beside_all_the_rest"
    taskyard.enqueue("greet", "name=x", "--lane", name)
    header, line = taskyard("tasks", "list").splitlines()
    assert name in line
    assert not header.endswith(" ")
    assert "\x1b" not in header + line


def test_a_terminal_gets_colours_by_state(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    assert "\x1b[33mqueued" in taskyard("tasks", "list", FORCE_COLOR="1", TERM="xterm")


def test_a_reader_that_goes_away_is_no_error(taskyard: Program) -> None:
    for name in "abc":
        taskyard.enqueue("greet", f"name={name}")
    shell = ["bash", "-c", '"$@" | true; exit "${PIPESTATUS[0]}"', "-"]
    done = taskyard.try_to("tasks", "list", through=shell)
    assert done.err == ""
    assert done.code in (0, 141)


def test_ctrl_c_is_quiet(taskyard: Program) -> None:
    program = taskyard.start("enqueue", "app:yard", "greet", "name=x", "--wait")
    assert program.stdout is not None
    assert program.stdout.readline()  # its id: now it waits
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("name=5", "5"),
        ('name="5"', "5"),
        ("name=true", "true"),
        ("name=null", "null"),
        ("name={}", "{}"),
        ("name=a=b", "a=b"),
        ("name=", ""),
        ("name=ä€😀", "ä€😀"),
    ],
)
def test_a_parameter_that_takes_strings_gets_a_string(
    taskyard: Program, word: str, value: str
) -> None:
    task_id = taskyard.enqueue("greet", word)
    assert taskyard.task(task_id)["payload"] == {"name": value}


def test_arguments_come_as_words_as_json_from_a_file_or_from_stdin(taskyard: Program) -> None:
    wanted = {"name": "x", "times": 3}
    (taskyard.folder / "args.json").write_text(json.dumps(wanted))
    words = taskyard.enqueue("greet", "name=x", "times=3")
    given = taskyard.enqueue("greet", "--args", json.dumps(wanted))
    file = taskyard.enqueue("greet", "--args", "@args.json")
    piped = taskyard.try_to(
        "enqueue", "app:yard", "greet", "--args", "-", stdin=json.dumps(wanted)
    ).out.strip()
    assert all(
        taskyard.task(task_id)["payload"] == wanted for task_id in (words, given, file, piped)
    )


def test_options_reach_the_task(taskyard: Program) -> None:
    task_id = taskyard.enqueue(
        "greet", "name=x", "--id", "my-id", "--priority", "2", "--lane", "fast", "--key", "a",
        "--key", "b", "--dedup", "d", "--delay", "60", "--timeout", "9", "--retries", "0",
    )  # fmt: skip
    task = taskyard.task(task_id)
    wanted = {"id": "my-id", "priority": 2, "lane": "fast", "keys": ["a", "b"], "dedup": "d",
              "timeout": 9.0, "max_charged": 1, "state": "pending"}  # fmt: skip
    assert {name: task[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("postgresql://me:s@cret@host/yard", "postgresql://host/yard"),
        ("redis://:secret@host:6379/0?namespace=a", "redis://host:6379/0?namespace=a"),
        ("postgresql://host/yard?password=secret&x=1", "postgresql://host/yard?password=…&x=1"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_help_and_version(taskyard: Program) -> None:
    assert "Usage: taskyard" in taskyard()
    assert "Usage: taskyard tasks" in taskyard("tasks")
    assert taskyard("--version").startswith("taskyard ")
