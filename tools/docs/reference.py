"""All pages of the reference, by their place below docs/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tools.docs import api, cli, errors, metrics, rest, settings

OTHERS: Mapping[str, Callable[[], str]] = {
    "cli": cli.page,
    "settings": settings.page,
    "metrics": metrics.page,
    "http": rest.page,
    "errors": errors.page,
}
NAMES = tuple(f"reference/{name}.md" for name in (*api.PAGES, *OTHERS))


def pages() -> Iterator[tuple[str, str]]:
    """The place of each, and its text."""
    for name, text in api.pages():
        yield f"reference/{name}.md", text
    for name, page in OTHERS.items():
        yield f"reference/{name}.md", page()
