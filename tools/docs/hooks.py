"""What mkdocs is told beside mkdocs.yml: pages made from the code, and what a site may not have.

The site is opened from a disk as well as from a server, so nothing in it comes from elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs import home, lists, outside, reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ICON = ROOT / "web" / "src" / "icon.svg"
MIGRATION = "celery/migration.md"  # where code of Celery stands beside ours
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, text in reference.pages():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "theme/icon.svg", abs_src_path=str(ICON)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Diagrams would need a script from elsewhere; pages that have them say the same in words."""
    folder = (DOCS / page.file.src_uri).parent
    text = lists.deepened(home.filled(MERMAID.sub("", markdown)))
    if page.file.src_uri == MIGRATION:
        text = text.replace("```python\n", '```python title="Taskyard"\n')
    parts = FENCE.split(text)
    return "".join(
        part if part.startswith("```") else LINK.sub(lambda m: linked(m, folder), part)
        for part in parts
    )


def linked(found: re.Match[str], folder: Path) -> str:
    """A link to a file of the source that is no page of the site is told by its name alone.

    One that leads nowhere stays, and fails the build.
    """
    target = (folder / found[2]).resolve()
    is_source = "://" not in found[2] and target.exists() and not target.is_relative_to(DOCS)
    return found[1] if is_source else found[0]


def on_post_build(config: MkDocsConfig) -> None:
    if wrong := list(outside.loaded_from_elsewhere(Path(config.site_dir))):
        raise PluginError("the site loads from elsewhere:\n" + "\n".join(wrong))
