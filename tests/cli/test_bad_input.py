"""Whatever goes wrong is one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.program import Program

START = Path(__file__).with_name("start.py")
GREET = ("enqueue", "app:yard", "greet", "name=x")


@pytest.mark.spec("engine-32")
@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["enqueue", "app:yard", "nonsuch"], 2, "there is no task called nonsuch; known are: "),
        (["enqueue", "app:yard", "greet"], 2, "missing required field `name`"),
        ([*GREET, "times=many"], 2, "Expected `int`, got `str` - at `$.times`"),
        ([*GREET, "times=2.5"], 2, "Expected `int`, got `float` - at `$.times`"),
        ([*GREET, "size=2"], 2, "unknown field `size`"),
        ([*GREET, "name=y"], 2, "argument name is given twice"),
        ([*GREET, "y"], 2, "arguments are given as name=value, not 'y'"),
        ([*GREET, "--args", "{}"], 2, "either with --args or as name=value"),
        (["enqueue", "app:yard", "greet", "--args", "[1]"], 2, "Expected `object`, got `array`"),
        (["enqueue", "app:yard", "greet", "--args", '{"name'], 2, "task greet: "),
        (["enqueue", "app:yard", "greet", "--args", "@nonsuch"], 2, "@nonsuch cannot be read"),
        ([*GREET, "--timeout", "-5"], 2, "timeout must be"),
        ([*GREET, "--timeout", "inf"], 2, "timeout must be"),
        ([*GREET, "--timeout", "soon"], 2, "'--timeout'"),
        ([*GREET, "--delay", "-1"], 2, "delay must be"),
        ([*GREET, "--delay", "nan"], 2, "delay must be"),
        ([*GREET, "--priority", "11"], 2, "priority must be from 1 (first) to 10 (last), not 11"),
        ([*GREET, "--priority", "high"], 2, "'--priority'"),
        ([*GREET, "--retries", "-1"], 2, "retries must be 0 or more, not -1"),
        ([*GREET, "--retries", "9" * 30], 2, "max_charged must be"),
        ([*GREET, "--lane", ""], 2, "lane must not be empty"),
        ([*GREET, "--key", "a", "--key", "a"], 2, "the same key is named twice: a"),
        ([*GREET, "--id", "a\nb"], 2, r"cannot be printed: 'a\nb'"),
        ([*GREET, "--timeout-wait", "3"], 2, "--timeout-wait goes with --wait"),
        (["worker", "app:yard", "--kinds", "nonsuch"], 2, "there is no task called nonsuch"),
        (["worker", "app:yard", "--slots", "0"], 2, "--slots"),
        (["worker", "app:yard", "--lease", "nan"], 2, "a lease lasts more than 0 seconds"),
        (["worker"], 2, "say what to run: taskyard worker module:attribute"),
        (["nonsuch"], 2, "No such command 'nonsuch'"),
        (["tasks", "list", "--nonsuch"], 2, "No such option: --nonsuch"),
    ],
)  # fmt: skip
def test_what_is_wrong_before_a_yard_is_needed(
    taskyard: Program, args: list[str], code: int, told: str
) -> None:
    done = taskyard.try_to(*args)
    assert told in done.complaint
    assert (done.code, done.out) == (code, "")


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["tasks", "show", "nonsuch"], 3, "there is no task nonsuch"),
        (["tasks", "explain", "nonsuch"], 3, "there is no task nonsuch"),
        (["tasks", "cancel", "nonsuch"], 3, "there is no task nonsuch"),
        (["tasks", "prioritize", "nonsuch", "3"], 3, "there is no task nonsuch"),
        (["tasks", "prioritize", "first", "11"], 2, "priority must be from 1 (first) to 10 (last)"),
        (["tasks", "retry", "first"], 4, "task first is queued and cannot be retried"),
        (["tasks", "list", "--limit", "0"], 2, "limit must be from 1 to 1000, not 0"),
        (["tasks", "list", "--after", "nonsuch"], 3, "there is no task nonsuch"),
        (["tasks", "list", "--state", "happy"], 2, "'--state'"),
        (["lanes", "set", "default", "--capacity", "-1"], 2, "capacity must be 0 or more"),
        (["lanes", "set", "default", "--capacity", "9" * 30], 2, "capacity must be at most"),
        (["lanes", "set", "default", "--capacity", "few"], 2, "takes a number or none, not 'few'"),
        (["lanes", "set", "", "--capacity", "1"], 2, "lane must not be empty"),
        (["lanes", "pause", "nonsuch"], 3, "there is no lane nonsuch; known are: default"),
        (["lanes", "resume", "nonsuch"], 3, "there is no lane nonsuch"),
        (["stats", "--watch", "--json"], 2, "--watch is for people"),
        (["stats", "--app", "app:yard", "--url", "sqlite:///x.db"], 2, "either --url or --app"),
    ],
)
def test_what_is_wrong_with_a_question_to_a_yard(
    lasting: Program, args: list[str], code: int, told: str
) -> None:
    done = lasting.try_to(*args)
    if "--json" not in args:
        assert done.complaint.startswith("error: ")
    assert told in done.complaint
    assert (done.code, done.out) == (code, "")


@pytest.mark.parametrize(
    ("args", "code", "name"),
    [
        (["tasks", "show", "nonsuch", "--json"], 1, "no_yard"),
        (["enqueue", "app:yard", "nonsuch", "--json"], 2, "unknown_kind"),
        (["enqueue", "app:yard", "greet", "--json"], 2, "invalid_arguments"),
        (["enqueue", "nonsuch:yard", "greet", "--json"], 6, "configuration"),
        (["worker", "nonsuch:yard", "--json"], 6, "configuration"),
        (["tasks", "list", "--limit", "few", "--json"], 2, "usage"),
        (["stats", "--url", "sqlite:///app.py", "--json"], 5, "store_corrupt"),
    ],
)
def test_errors_as_json(taskyard: Program, args: list[str], code: int, name: str) -> None:
    done = taskyard.try_to(*args)
    assert (done.code, done.out) == (code, "")
    error = json.loads(done.complaint)["error"]
    assert error["code"] == name
    assert error["message"]


@pytest.mark.parametrize(
    "args",
    [
        ["stats"],
        ["doctor"],
        ["tasks", "list"],
        ["tasks", "cancel", "x"],
        ["lanes", "list"],
        ["lanes", "set", "x", "--capacity", "1"],
    ],
)
def test_a_yard_that_is_not_there_is_not_made(taskyard: Program, args: list[str]) -> None:
    done = taskyard.try_to(*args)
    assert done.code == 1
    assert done.complaint.startswith(f"error: there is no yard at {taskyard.url} (use --url")
    assert not taskyard.file.exists()


def test_the_default_is_a_file_in_the_current_folder(taskyard: Program) -> None:
    done = taskyard.try_to("stats", TASKYARD_URL="")
    assert "there is no yard at sqlite:///yard.db (use --url" in done.complaint


def test_another_programs_database_is_left_alone(taskyard: Program, tmp_path: Path) -> None:
    import sqlite3

    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = other.read_bytes()
    done = taskyard.try_to("stats", "--url", f"sqlite:///{other}")
    assert done.code == 1
    assert "there is no yard at" in done.complaint
    assert other.read_bytes() == before


@pytest.mark.parametrize("url", ["yard.db", "mongodb://x", "sqlite:///", "sqlite:///x.db?mode=ro"])
def test_a_url_that_names_no_store(taskyard: Program, url: str) -> None:
    done = taskyard.try_to("stats", "--url", url)
    assert done.code == 6
    assert done.complaint.startswith("error: ")


def test_a_payload_over_the_limit(taskyard: Program) -> None:
    (taskyard.folder / "big.json").write_text(json.dumps({"name": "x" * 1_000_001}))
    done = taskyard.try_to("enqueue", "app:yard", "greet", "--args", "@big.json")
    assert done.code == 2
    assert "bytes, the limit is 1,000,000" in done.complaint


def test_words_that_are_not_utf8(taskyard: Program) -> None:
    done = taskyard.try_to("tasks", "list", "--key", b"\xff".decode(errors="surrogateescape"))
    assert done.code == 2
    assert "not valid UTF-8" in done.complaint


# --- stores that cannot be used ---


@pytest.mark.parametrize(
    "args",
    [["stats"], ["tasks", "list"], ["lanes", "pause", "x"], [*GREET], ["worker", "app:yard"]],
)
def test_a_file_that_is_not_a_database(taskyard: Program, args: list[str]) -> None:
    taskyard.file.write_text("dear diary, " * 1000)
    done = taskyard.try_to(*args)
    assert done.code == 5
    assert done.complaint == f"error: {taskyard.file} is not an SQLite database; name another file"
    assert taskyard.file.read_text().startswith("dear diary")


def test_doctor_tells_of_a_file_that_is_not_a_database(taskyard: Program) -> None:
    taskyard.file.write_text("dear diary, " * 1000)
    done = taskyard.try_to("doctor")
    assert done.code == 1
    assert done.complaint == "error: 1 of 1 checks failed: store"
    assert "is not an SQLite database" in done.out
    told = taskyard.try_to("doctor", "--json")
    assert [check["ok"] for check in told.json] == [False]


@pytest.mark.parametrize("args", [["stats"], ["lanes", "set", "default", "--capacity", "1"], GREET])
def test_a_read_only_file(taskyard: Program, args: list[str]) -> None:
    taskyard.enqueue("greet", "name=x")
    taskyard.file.chmod(0o444)
    done = taskyard.try_to(*args, through=[sys.executable, str(START), "--obey-file-rights"])
    assert done.code == 5
    assert "cannot be written; check the rights of the file" in done.complaint


def test_a_read_only_folder(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    taskyard.folder.chmod(0o555)
    try:
        done = taskyard.try_to("stats", through=[sys.executable, str(START), "--obey-file-rights"])
    finally:
        taskyard.folder.chmod(0o755)
    assert done.code == 5
    assert "cannot be written" in done.complaint


@pytest.mark.parametrize("most", ["0", "100000"])
def test_no_room_for_a_new_yard(taskyard: Program, most: str) -> None:
    done = taskyard.try_to(*GREET, through=[sys.executable, str(START), "--largest-file", most])
    assert done.code == 5
    assert str(taskyard.file) in done.complaint


def test_no_room_for_a_task(taskyard: Program) -> None:
    first = taskyard.enqueue("greet", "name=x")
    (taskyard.folder / "big.json").write_text(json.dumps({"name": "x" * 900_000}))
    done = taskyard.try_to(
        "enqueue", "app:yard", "greet", "--args", "@big.json",
        through=[sys.executable, str(START), "--largest-file", "500000"],
    )  # fmt: skip
    assert done.code == 5
    assert str(taskyard.file) in done.complaint
    assert [task["id"] for task in taskyard.json("tasks", "list")] == [first]
