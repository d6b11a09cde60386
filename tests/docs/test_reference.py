"""The reference names everything: public names, commands, settings, metrics, routes, errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import taskyard
from taskyard.domain.errors import TaskyardError
from taskyard.settings import load, variable
from tools.docs import api, cli, errors, home, lists, metrics, outside, reference, rest, settings

DOCS = Path(__file__).parents[2] / "docs"
NAV = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
SETTINGS = load(environ={}, folder=Path("/nonexistent")).each


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(reference.pages())


@pytest.fixture(scope="module")
def figures() -> list[metrics.Figure]:
    return metrics.figures()


def test_every_page_is_in_the_site(pages: dict[str, str]) -> None:
    assert tuple(pages) == reference.NAMES
    assert [name for name in pages if f": {name}\n" not in NAV] == []


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


def test_nothing_of_this_process_is_told(pages: dict[str, str]) -> None:
    """Addresses of objects would differ from build to build."""
    assert [name for name, text in pages.items() if re.search(r"\bat 0x[0-9a-f]+", text)] == []


def test_every_command_with_every_option_is_told(pages: dict[str, str]) -> None:
    page = pages["reference/cli.md"]
    names = [name for name, _ in cli.commands()]
    assert {"taskyard worker", "taskyard lanes set"} <= set(names)
    for name, command in cli.commands():
        [section] = re.findall(rf"^## `{name}`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        told = {word for option in command.params for word in option.opts if word[:2] == "--"}
        assert [o for o in told - cli.EVERYWHERE if f"`{o}" not in section] == []


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
    assert TaskyardError in errors.classes()
    for one in errors.classes():
        assert f"| `{one.__name__}` | `{one.code}` |" in page
    for code in ("unauthorized", "wrong_host", "bad_cursor", "bug"):
        assert f"| `{code}` |" in page


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


def test_the_home_page_has_sections_of_the_readme() -> None:
    filled = home.filled((DOCS / "index.md").read_text("utf-8"))
    assert "## Twenty lines" in filled
    assert "](guides/lanes.md)" in filled
    assert "](docs/" not in filled
    with pytest.raises(LookupError):
        home.section("No such section")
