"""Pages of the site that are written elsewhere than in docs/, and links from and to them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "bench" / "results"

PAGES: Mapping[str, Path] = {
    "changelog.md": ROOT / "CHANGELOG.md",
    "benchmarks.md": ROOT / "bench" / "README.md",
    "figures.md": RESULTS / "latest.md",
}
PICTURES: Mapping[str, Path] = {"figures.png": RESULTS / "latest.png"}

LIGHT, DARK = "-light.png", "-dark.png"

_PLACES = {path: name for name, path in {**PAGES, **PICTURES}.items()}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def linked(markdown: str, page: str) -> str:
    """The text of a page with its links as they are in the site.

    A link to a file of the source that is no page is told by its name alone. One that leads
    nowhere stays, and fails the build. A picture that there is in dark too is shown as the reader's
    colours are.
    """
    folder = PAGES.get(page, DOCS / page).parent

    def of(found: re.Match[str]) -> str:
        picture, text, to, heading = found.groups(default="")
        target = (folder / to).resolve()
        if "://" in to or not target.exists():
            return found[0]
        if target in _PLACES:
            place = _PLACES[target]
        elif target.is_relative_to(DOCS):
            place = target.relative_to(DOCS).as_posix()
        else:
            return text
        here = posixpath.relpath(place, posixpath.dirname(page))
        if picture and here.endswith(LIGHT) and Path(str(target).replace(LIGHT, DARK)).exists():
            dark = here.replace(LIGHT, DARK)
            return f"![{text}]({here}#only-light)![{text}]({dark}#only-dark)"
        return f"{picture}[{text}]({here}{heading})"

    return _LINK.sub(of, markdown)
