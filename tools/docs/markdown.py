"""Small pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_GUIDE = re.compile(r"\bdocs/(guides/(\w+)\.md)")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Nothing at all without rows."""
    lines = [_row(row) for row in rows]
    if lines:
        yield from ("", _row(heads), _row(["---"] * len(heads)), *lines, "")


def filled(
    heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The columns in which anything stands."""
    some = [n for n, _ in enumerate(heads) if any(row[n] for row in rows)]
    return [heads[n] for n in some], [[row[n] for n in some] for row in rows]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |"


def linked(text: str) -> str:
    """A docstring names guides by their file; a page below reference/ links to them."""
    return _GUIDE.sub(lambda found: f"[guide: {found[2].replace('_', ' ')}](../{found[1]})", text)


def generated(source: str) -> str:
    """Said at the top of each page."""
    return f"Made from {source} when this site is built."
