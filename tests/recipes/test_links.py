"""The links of the pages lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.docs.reference import NAMES

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.parent.name != "spec"
]
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MADE = {ROOT / "docs" / name for name in NAMES}  # when the site is built, which checks their links
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Inside this repository: the file and the heading of each."""
    for target in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        if "://" not in target:
            file, _, heading = target.partition("#")
            yield (page.parent / file if file else page), heading


def anchors(page: Path) -> set[str]:
    """The names under which headings can be linked to."""
    headings = HEADING.findall(CODE.sub("", page.read_text("utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    lost = [
        (str(file), heading)
        for file, heading in links(page)
        if file.resolve() not in MADE
        if not file.exists() or (heading and heading not in anchors(file))
    ]
    assert not lost


@pytest.mark.parametrize("folder", ["guides", "recipes"])
def test_the_readme_leads_to_every_page(folder: str) -> None:
    named = {file.resolve() for file, _ in links(ROOT / "README.md")}
    pages = {page for page in (ROOT / "docs" / folder).glob("*.md") if page.stem != "README"}
    assert pages <= named


def test_every_recipe_is_in_their_list() -> None:
    folder = ROOT / "docs" / "recipes"
    named = {file.resolve() for file, _ in links(folder / "README.md")}
    assert set(folder.glob("*.md")) - {folder / "README.md"} <= named
