"""The reference names everything: public names, commands, settings, metrics, routes, errors."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import taskyard
from taskyard.domain.errors import TaskyardError
from taskyard.settings import load, variable
from tools.docs import (
    api,
    cli,
    errors,
    home,
    lists,
    metrics,
    outside,
    reference,
    rest,
    settings,
    source,
)

DOCS = Path(__file__).parents[2] / "docs"
NAV = (DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
SETTINGS = load(environ={}, folder=Path("/nonexistent")).each
TEMPLATE = "decisions/0000-template.md"
SOURCE = Path(taskyard.__file__).parent
TREES = [ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))]


def texts(trees: list[ast.Module]) -> set[str]:
    return {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def measures(tree: ast.Module) -> bool:
    froms = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    return any(module.startswith("prometheus_client") for module in froms)


VARIABLES = {text for text in texts(TREES) if re.fullmatch(r"TASKYARD_[A-Z_]*[A-Z]", text)}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(reference.pages())


@pytest.fixture(scope="module")
def figures() -> list[metrics.Figure]:
    return metrics.figures()


def test_every_page_is_in_the_site_once(pages: dict[str, str]) -> None:
    assert tuple(pages) == reference.NAMES
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {TEMPLATE}
    named = re.findall(r"^ *- (?:[^:\n]+: )?(\S+\.md)$", NAV, re.MULTILINE)
    assert sorted(named) == sorted(written | set(pages) | set(source.PAGES))


def test_every_public_name_is_told(pages: dict[str, str]) -> None:
    headings = {
        name
        for page in api.PAGES
        for name in re.findall(r"^## `(\w+)`$", pages[f"reference/{page}.md"], re.MULTILINE)
    }
    of_errors = {one.__name__ for one in errors.classes()}
    untold = set(taskyard.__all__) - headings - of_errors - {"FOREVER"}
    assert untold == set()
    assert "FOREVER" in pages["reference/values.md"]


def test_every_public_verb_is_told(pages: dict[str, str]) -> None:
    page = pages["reference/yard.md"]
    verbs = {name for name in dir(taskyard.Yard) if not name.startswith("_")}
    assert {"enqueue", "set_lane", "cron", "worker"} <= verbs
    assert [name for name in sorted(verbs) if f"### `{name}`" not in page] == []


@pytest.mark.parametrize(
    "cls", [taskyard.Yard, taskyard.TaskKind, taskyard.Handle, taskyard.Retry, taskyard.Worker]
)
def test_every_public_verb_says_what_it_does(cls: type) -> None:
    verbs = {name: inspect.getdoc(getattr(cls, name)) for name in api.members(cls)}
    assert len(verbs) >= 3
    assert [name for name, text in verbs.items() if not text] == []


def test_nothing_of_this_process_is_told(pages: dict[str, str]) -> None:
    """Addresses of objects would differ from build to build."""
    assert [name for name, text in pages.items() if re.search(r"\bat 0x[0-9a-f]+", text)] == []


def test_every_command_with_every_option_is_told(pages: dict[str, str]) -> None:
    page = pages["reference/cli.md"]
    names = [name for name, _ in cli.commands()]
    assert {"taskyard worker", "taskyard lanes set"} <= set(names)
    for name, command in cli.commands():
        [section] = re.findall(rf"^## `{name}`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert command.help, f"{name} does not say what it does"
        options = {word for option in command.params for word in option.opts if word[:2] == "--"}
        rows = re.findall(r"^\| `([^`]+)` \|.*\| \S.* \|$", section, re.MULTILINE)
        told = {word for row in rows for word in re.findall(r"--[a-z-]+", row)}
        assert options - cli.EVERYWHERE - told == set()


@pytest.mark.parametrize("variable", sorted(VARIABLES))
def test_every_variable_is_in_a_guide(variable: str) -> None:
    """Beside those of settings, which are made of their names."""
    guides = [DOCS / "cli.md", *(DOCS / "guides").glob("*.md")]
    assert any(f"`{variable}" in guide.read_text("utf-8") for guide in guides)


@pytest.mark.parametrize("name", [each.name for each in SETTINGS])
def test_every_setting_is_told(name: str, pages: dict[str, str]) -> None:
    [row] = [
        line for line in pages["reference/settings.md"].splitlines() if f"| `{name}`<br>" in line
    ]
    assert f"`{variable(name)}`" in row
    assert settings.words()[name], f"the guide does not say what {name} means"


def test_every_metric_is_told(pages: dict[str, str], figures: list[metrics.Figure]) -> None:
    page = pages["reference/metrics.md"]
    assert len(figures) >= 15
    for figure in figures:
        assert f"| `{figure.name}` | {figure.kind} |" in page
        assert figure.about in page


def test_every_metric_in_the_source_has_been_seen(figures: list[metrics.Figure]) -> None:
    """One without a sample would be on no page."""
    named = texts([tree for tree in TREES if measures(tree)])
    written = {text for text in named if re.fullmatch(r"taskyard_[a-z_]+", text)}
    assert {"taskyard_claims", "taskyard_process_memory_bytes"} <= written
    assert written == {figure.name.removesuffix("_total") for figure in figures}


def test_every_label_is_in_the_guide(figures: list[metrics.Figure]) -> None:
    """Which names a counter without the suffix of its samples."""
    guide = (DOCS / "guides" / "server.md").read_text("utf-8")
    for figure in figures:
        name = f"`{figure.name.removesuffix('_total')}`"
        [row] = [line for line in guide.splitlines() if name in line]
        assert sorted(re.findall(r"\w+", row.split("|")[2])) == list(figure.labels)


def test_every_route_is_told(pages: dict[str, str]) -> None:
    description, roles = rest.described()
    page = pages["reference/http.md"]
    routes = [(m, p) for p, ops in description["paths"].items() for m in ops if m in rest.METHODS]
    assert ("post", "/api/tasks") in routes
    for method, path in routes:
        assert f"### `{method.upper()} {path}`" in page
        assert (method, path) in roles
    for name in description["components"]["schemas"]:
        assert f"### `{name}`" in page


def test_every_error_is_told(pages: dict[str, str]) -> None:
    page = pages["reference/errors.md"]
    assert {TaskyardError, taskyard.TaskFailed} <= set(errors.classes())
    for one in errors.classes():
        assert f"| `{one.__name__}` | `{one.code}` |" in page
    for code in errors.server_codes():
        assert f"| `{code}` |" in page


def test_every_code_of_an_error_is_in_the_guide_and_no_other() -> None:
    told = errors.words()
    known = {one.code for one in errors.classes()} | set(errors.server_codes()) | errors.OTHERS
    assert {"store_busy", "wrong_host", "bad_cursor", "bug"} <= known
    assert set(told) == known
    assert [code for code, text in told.items() if not text] == []


def test_codes_of_the_server_are_written_where_they_are_found() -> None:
    """`Refusal` and `problem` name theirs, or pass on that of another error."""
    assert list(errors.hidden_codes()) == []


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img srcset="a.png 1x, https://img.example/b.png 2x">',
        '<style>@import "https://x.example/a.css";</style>',
        '<div style="background: url(http://x.example/a.png)"></div>',
        '<pre class="mermaid"><code>a --> b</code></pre>',
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(html: str) -> None:
    assert outside.in_page(html)


def test_a_link_for_readers_is_no_load() -> None:
    assert not outside.in_page('<a href="https://www.postgresql.org/">x</a><img src="a/b.png">')


def test_lists_are_as_forges_read_them() -> None:
    """An item may begin with code, and hold a table; its number is that of a statement."""
    written = "7. ```python\n    a = 1\n    ```\n    b\n8. c\n   | x |\n   |---|\n   d\n\ne"
    assert lists.deepened(written) == (
        "7. &#8203;\n\n    ```python\n    a = 1\n    ```\n    b\n"
        "8. c\n\n    | x |\n    |---|\n\n    d\n\ne"
    )
    code = "```text\n- a\n  b\n```\n- c\n  d"
    assert lists.deepened(code) == "```text\n- a\n  b\n```\n- c\n    d"


def test_links_lead_to_pages_of_the_site() -> None:
    assert source.linked("[a](../docs/cli.md#x) ![p](results/latest.png)", "benchmarks.md") == (
        "[a](cli.md#x) ![p](figures.png)"
    )
    assert source.linked("[a](../../bench/README.md)", "guides/cron.md") == "[a](../benchmarks.md)"
    assert source.linked("[a `b`](../Makefile)", "index.md") == "a `b`"
    assert source.linked("[a](nowhere.md)", "index.md") == "[a](nowhere.md)"
    assert source.linked("![d](../screens/overview-light.png)", "guides/dashboard.md") == (
        "![d](../screens/overview-light.png#only-light)![d](../screens/overview-dark.png#only-dark)"
    )


def test_the_home_page_has_sections_of_the_readme() -> None:
    filled = home.filled((DOCS / "index.md").read_text("utf-8"))
    assert "## A whole program" in filled
    assert "> A task runs when" in filled
    assert "](guides/lanes.md)" in filled
    assert "](docs/" not in filled
    with pytest.raises(LookupError):
        home.section("No such section")
