from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.spec_coverage import ROOT, main, read_spec

ENGINE = """# Engine
1. **Task**: has an id.
2. ```python
   3. not a statement
   ```
   Typed end to end.
12. Cheap [always].
"""

RELIABILITY = """| # | fault | holds |
|---|---|---|
| 1 | worker killed | L |
"""

TESTS = """
import pytest

@pytest.mark.spec("engine-1", "engine-12")
async def test_one(): ...

@pytest.mark.spec("engine-12")
class TestMany:
    def test_two(self): ...
    def helper(self): ...
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("docs/spec", "tests/engine", "bench"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "docs/spec/engine.md").write_text(ENGINE)
    (tmp_path / "docs/spec/reliability.md").write_text(RELIABILITY)
    (tmp_path / "tests/engine/test_it.py").write_text(TESTS)
    (tmp_path / "bench/speed.py").write_text('SPEC = ("engine-12",)\n')
    return tmp_path


def report(project: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, int]]:
    """Statement -> how many tests and benches show it."""
    assert main(["--json", "--root", str(project)]) == 0
    rows = json.loads(capsys.readouterr().out)
    return {row["id"]: (len(row["tests"]), len(row["benches"])) for row in rows}


def test_statements_are_the_numbered_items_and_table_rows(project: Path) -> None:
    statements = read_spec(project / "docs/spec")

    assert [(s.id, s.text) for s in statements] == [
        ("engine-1", "Task: has an id."),
        ("engine-2", "Typed end to end."),
        ("engine-12", "Cheap [always]."),
        ("reliability-1", "worker killed"),
    ]


def test_marks_of_functions_and_classes_and_benches_count(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(project, capsys) == {
        "engine-1": (1, 0),
        "engine-2": (0, 0),
        "engine-12": (2, 1),
        "reliability-1": (0, 0),
    }


@pytest.mark.parametrize(
    "source",
    [
        'pytestmark = pytest.mark.spec("engine-2")\ndef test_it(): ...',
        'pytestmark = [pytest.mark.slow, pytest.mark.spec("engine-2")]\ndef test_it(): ...',
        'class TestIt:\n    pytestmark = pytest.mark.spec("engine-2")\n    def test_it(self): ...',
        'TestIt = pytest.mark.spec("engine-2")(Machine.TestCase)',
        '@mark.parametrize("x", [param(1, marks=mark.spec("engine-2"))])\ndef test_it(x): ...',
    ],
)
def test_marks_are_found_wherever_pytest_takes_them(
    project: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    (project / "tests/test_more.py").write_text(source)

    assert report(project, capsys)["engine-2"] == (1, 0)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('@mark.spec("engine-99")\ndef test_it(): ...', "no statement 'engine-99'"),
        ("@mark.spec(NAME)\ndef test_it(): ...", "plain strings"),
        ("@mark.spec()\ndef test_it(): ...", "names statements"),
        ('@mark.spec("engine-1", side="HTTP")\ndef test_it(): ...', 'takes part="…"'),
        ('@mark.spec("engine-1", part="HTTP")\ndef test_it(): ...', "no part 'HTTP' of engine-1"),
        ('@mark.spec("engine-1")\ndef helper(): ...', "not on a test"),
    ],
)
def test_a_mark_that_shows_nothing_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str], source: str, complaint: str
) -> None:
    (project / "tests/test_more.py").write_text(source)

    assert main(["--root", str(project)]) == 1
    assert complaint in capsys.readouterr().err


def test_a_bench_that_names_an_unknown_statement_is_an_error(project: Path) -> None:
    (project / "bench/more.py").write_text('SPEC: tuple[str, ...] = ("engine-99",)')

    assert main(["--root", str(project)]) == 1


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ("engine-1,engine-12", 0),
        ("engine-1..2", 1),
        ("reliability-1", 1),
        ("engine-99", 1),
        ("engine", 1),
    ],
)
def test_required_statements_must_be_shown(project: Path, wanted: str, code: int) -> None:
    assert main(["--root", str(project), "--require", wanted]) == code


def test_the_tables_name_what_is_shown_and_what_is_not(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(project)]) == 0

    out = capsys.readouterr().out
    assert "test_it::TestMany::test_two" in out
    assert "Cheap [always]." in out
    assert out.index("Not shown yet") < out.index("worker killed")


@pytest.fixture
def parts(project: Path) -> Path:
    """engine-1 has two parts that need a test of their own."""
    (project / "tools").mkdir()
    file = project / "tools/spec_parts.toml"
    file.write_text('engine-1 = ["HTTP", "dashboard"]')
    return file


def test_a_statement_is_shown_in_part_until_each_part_is(
    project: Path, parts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tests count, but it is not shown."""
    assert report(project, capsys)["engine-1"] == (1, 0)
    assert main(["--root", str(project)]) == 0
    out = capsys.readouterr().out
    assert out.index("Shown in part") < out.index("HTTP, dashboard") < out.index("Not shown yet")

    one = '@mark.spec("engine-1", part="HTTP")\ndef test_http(): ...\n'
    (project / "tests/test_more.py").write_text(one)
    assert main(["--root", str(project), "--require", "engine-1"]) == 1

    other = '@mark.spec("engine-1", part="dashboard")\ndef test_dashboard(): ...\n'
    (project / "tests/test_more.py").write_text(one + other)
    assert main(["--root", str(project), "--require", "engine-1"]) == 0


def test_a_test_of_one_part_does_not_show_the_rest(project: Path, parts: Path) -> None:
    parts.write_text('engine-2 = ["HTTP"]')
    one = '@mark.spec("engine-2", part="HTTP")\ndef test_http(): ...'
    (project / "tests/test_more.py").write_text(one)

    assert main(["--root", str(project), "--require", "engine-2"]) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [('engine-99 = ["HTTP"]', "no statement 'engine-99'"), ("engine-1 = 5", "spec_parts.toml")],
)
def test_parts_of_nothing_are_an_error(
    project: Path, parts: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    parts.write_text(text)

    assert main(["--root", str(project)]) == 1
    assert complaint in capsys.readouterr().err


def test_every_statement_of_the_real_spec_is_read() -> None:
    statements = read_spec(ROOT / "docs/spec")

    pages = {s.page for s in statements}
    assert pages == {path.stem for path in (ROOT / "docs/spec").glob("*.md")} - {"README"}
    for page in pages:
        numbers = [s.number for s in statements if s.page == page]
        assert numbers == list(range(1, len(numbers) + 1)), page
    assert sum(s.page == "reliability" for s in statements) == 25
    assert all(s.text for s in statements)
