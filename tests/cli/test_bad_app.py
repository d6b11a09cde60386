"""An APP that cannot be used is told in one line, with the place of the mistake."""

from __future__ import annotations

import pytest

from tests.cli.program import Program


@pytest.mark.parametrize(
    ("app", "told"),
    [
        ("app", "APP must be module:attribute or path/to/file.py:attribute, not 'app'"),
        ("app:", "APP must be module:attribute"),
        (":yard", "APP must be module:attribute"),
        ("nonsuch:yard", "there is no module nonsuch in "),
        ("app.nonsuch:yard", "there is no module app.nonsuch in "),
        ("nonsuch.py:yard", "there is no file nonsuch.py"),
        ("app:yrd", "app has no attribute yrd; its yards are: yard"),
        ("app:yard.nonsuch", "app has no attribute yard.nonsuch"),
        ("app:not_a_yard", "app:not_a_yard is not a Yard but of type str; its yards are: yard"),
        ("app.py:greet", "app.py:greet is not a Yard but of type TaskKind"),
    ],
)
def test_a_name_that_leads_nowhere(taskyard: Program, app: str, told: str) -> None:
    done = taskyard.try_to("worker", app)
    assert done.code == 6
    assert f"error: {told}" in done.complaint


@pytest.mark.parametrize("args", [["enqueue", "app:yrd", "greet"], ["stats", "--app", "app:yrd"]])
def test_every_command_that_takes_an_app_says_so(taskyard: Program, args: list[str]) -> None:
    done = taskyard.try_to(*args)
    assert done.code == 6
    assert done.complaint == "error: app has no attribute yrd; its yards are: yard"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero ({path}, line 2)"),
        ("import nonsuch\n", "ModuleNotFoundError: No module named 'nonsuch' ({path}, line 1)"),
        ("def f(:\n", "SyntaxError: invalid syntax ({path}, line 1)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 ({path}, line 2)"),
        ("from json import loads\nloads('{{')\n", "JSONDecodeError: "),
        ("raise ValueError('two\\nlines')\n", "ValueError: two\\nlines ({path}, line 1)"),
        (
            "from taskyard import Yard\nyard = Yard()\n\n@yard.task()\ndef f(*args): ...\n",
            "InvalidHandler: task f takes *args",
        ),
        ("from taskyard import Yard\nyard = Yard('mysql://x')\n", "({path}, line 2)"),
    ],
)
def test_an_import_that_raises(taskyard: Program, source: str, told: str) -> None:
    path = taskyard.folder / "broken.py"
    path.write_text(source)
    done = taskyard.try_to("worker", "broken:yard")
    assert done.code == 6
    assert done.complaint.startswith("error: importing broken failed: ")
    assert told.format(path=path) in done.complaint


def test_a_file_that_raises(taskyard: Program) -> None:
    (taskyard.folder / "broken.py").write_text("x = 1\ny = x / 0\n")
    done = taskyard.try_to("worker", "./broken.py:yard")
    assert done.code == 6
    assert "importing ./broken.py failed: ZeroDivisionError" in done.complaint
    assert "broken.py, line 2)" in done.complaint


def test_an_application_without_tasks_cannot_be_worked_on(taskyard: Program) -> None:
    (taskyard.folder / "idle.py").write_text("from taskyard import Yard\nyard = Yard()\n")
    done = taskyard.try_to("worker", "idle:yard")
    assert done.code == 6
    assert "idle:yard declares no tasks" in done.complaint


def test_a_file_finds_its_neighbours(taskyard: Program) -> None:
    folder = taskyard.folder / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "neighbour.py").write_text("from taskyard import Yard\nyard = Yard()\n")
    (folder / "main.py").write_text("from neighbour import yard\n")
    done = taskyard.try_to("enqueue", "deep/er/main.py:yard", "nonsuch")
    assert done.complaint == "error: there is no task called nonsuch; known are: none"
