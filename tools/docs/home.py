"""Sections of the README inside the home page: `<!-- README: What it promises -->`."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
PLACE = re.compile(r"^<!-- README: (.*?) -->$", re.MULTILINE)


def filled(markdown: str) -> str:
    return PLACE.sub(lambda found: section(found[1]), markdown)


def section(title: str) -> str:
    """With its heading, and its links as they are from the folder docs."""
    found = re.search(
        rf"^## {re.escape(title)}\n.*?(?=^## |\Z)",
        README.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise LookupError(f"the README has no section {title!r}")
    inside = re.sub(r"\]\(docs/", "](", found[0])
    return re.sub(r"\]\((?=(?:bench|examples|deploy|CHANGELOG))", "](../", inside)
