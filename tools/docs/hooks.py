"""What mkdocs is told beside mkdocs.yml: pages from elsewhere, and what a site may not have.

The site is opened from a disk as well as from a server, so nothing in it is fetched from another.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs import home, lists, outside, reference, source

ICON = source.ROOT / "web" / "src" / "icon.svg"
MIGRATION = "celery/migration.md"  # where code of Celery stands beside ours
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, text in reference.pages():
        files.append(File.generated(config, name, content=text))
    for name, path in {**source.PAGES, **source.PICTURES, "theme/icon.svg": ICON}.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Diagrams would need a script from elsewhere; pages that have them say the same in words."""
    place = page.file.src_uri
    text = lists.deepened(home.filled(MERMAID.sub("", markdown)))
    if place == MIGRATION:
        text = text.replace("```python\n", '```python title="Taskyard"\n')
    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else source.linked(part, place) for part in parts)


def on_post_build(config: MkDocsConfig) -> None:
    if wrong := list(outside.loaded_from_elsewhere(Path(config.site_dir))):
        raise PluginError("the site loads from elsewhere:\n" + "\n".join(wrong))
