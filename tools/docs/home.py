"""The README inside the home page: its beginning where `<!-- README -->` stands, and sections of it
where `<!-- README: What it promises -->` does.
"""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
PLACE = re.compile(r"^<!-- README(?:: (.*?))? -->$", re.MULTILINE)


def filled(markdown: str) -> str:
    return PLACE.sub(lambda found: section(found[1]) if found[1] else beginning(), markdown)


def beginning() -> str:
    """What stands between the title and the first section."""
    return _from_docs(_text().partition("\n")[2].partition("\n## ")[0].strip())


def section(title: str) -> str:
    """With its heading."""
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", _text(), re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"the README has no section {title!r}")
    return _from_docs(found[0])


def _text() -> str:
    return README.read_text("utf-8")


def _from_docs(text: str) -> str:
    """Its links as they are from the folder docs."""
    inside = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((?=(?:bench|examples|deploy|CHANGELOG))", "](../", inside)
