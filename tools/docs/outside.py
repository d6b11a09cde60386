"""Finds what a built site would load from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

# What a browser loads by itself, without a click.
LOADED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
ELSEWHERE = re.compile(r"(?:^|[\s,])(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """One line for each, with its file."""
    for path in sorted(site.rglob("*.html")):
        for line in in_page(path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: {line}"
    for path in sorted(site.rglob("*.css")):
        for target in IN_STYLE.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: {target}"


def in_page(html: str) -> list[str]:
    reader = _Reader()
    reader.feed(html)
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        for name in LOADED.get(tag, ()):
            if ELSEWHERE.search(given.get(name, "")):
                self.found.append(f"<{tag} {name}={given[name]}>")
        self.found += IN_STYLE.findall(given.get("style", ""))
        if "mermaid" in given.get("class", "").split():
            self.found.append("a diagram that needs a script from elsewhere")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.found += IN_STYLE.findall(data)
