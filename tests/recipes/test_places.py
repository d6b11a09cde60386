"""docs/architecture.md and docs/seeds.md name what is there, and all of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskyard import Context, Worker, Yard

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "taskyard"
NAMES = ("architecture", "seeds")
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in NAMES}
TICKED = re.compile(r"`([^`\n]+)`")
A_PATH = re.compile(r"[\w/]+(\.py|\.md|/)")
A_NAME = re.compile(r"[A-Za-z_]+")
OWNERS = {"Yard": Yard, "Context": Context, "Worker": Worker}


def rows(page: str) -> Iterator[list[str]]:
    """The words in backticks of each row of each table, in order."""
    for row in re.findall(r"^\|.*\|$", PAGES[page], re.MULTILINE):
        yield TICKED.findall(row)


def places(words: list[str]) -> Iterator[Path]:
    """Where these paths lead; a bare name is in the folder of one before it."""
    bases = [SOURCE, SOURCE.parent, ROOT]
    for word in words:
        if not A_PATH.fullmatch(word):
            continue
        found = [base / word for base in bases]
        place = next((path for path in found if path.exists()), SOURCE / word)
        bases.append(place if place.is_dir() else place.parent)
        yield place


@pytest.mark.parametrize("page", PAGES)
def test_every_file_is_there(page: str) -> None:
    named = [place for words in rows(page) for place in places(words)]
    assert len(named) > 20
    assert [place for place in named if not place.exists()] == []


def test_every_name_is_in_the_file_before_it() -> None:
    """`domain/task.py` `Dedup`, `Clash`."""
    lost = []
    for words in rows("seeds"):
        file: Path | None = None
        for word in words:
            if A_PATH.fullmatch(word):
                [file] = places([word])
            elif A_NAME.fullmatch(word) and not word.startswith("taskyard_") and file is not None:
                defined = rf"^\s*(?:class|(?:async )?def) {word}\b|^{word}\b.*="
                if not re.search(defined, file.read_text("utf-8"), re.MULTILINE):
                    lost.append((file.name, word))
    assert not lost


def test_every_verb_and_table_is_there() -> None:
    words = [word for named in rows("seeds") for word in named]
    verbs = [word.split(".") for word in words if re.fullmatch(r"(Yard|Context|Worker)\.\w+", word)]
    assert len(verbs) > 10
    assert [verb for verb in verbs if not hasattr(OWNERS[verb[0]], verb[1])] == []
    tables = {word for word in words if word.startswith("taskyard_")}
    migrations = (SOURCE / "store" / "sqlite" / "migrations").glob("*.sql")
    schema = "\n".join(path.read_text("utf-8") for path in migrations)
    assert [name for name in tables if not re.search(rf"CREATE \w+ {name}\b", schema)] == []


def test_the_layers_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    [contract] = [c for c in project["tool"]["importlinter"]["contracts"] if c["id"] == "layers"]
    layers = [re.findall(r"taskyard\.(\w+)", layer) for layer in contract["layers"]]
    there = [[name for name in layer if _is_there(name)] for layer in layers]
    told = re.search(r"^cli → .*$", PAGES["architecture"], re.MULTILINE)
    assert told
    assert told[0] == " → ".join(", ".join(layer) for layer in there if layer)


def _is_there(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def test_every_module_has_its_place_in_the_table() -> None:
    """By its own name, or by that of a folder it is in; the worker is told of in words."""
    named = {place for words in rows("architecture") for place in places(words)}
    told = PAGES["architecture"].partition("## The worker")[2].lower()
    lost = [
        path
        for path in SOURCE.rglob("*.py")
        if not path.stem.startswith("__")
        and not named & {path, *path.parents} - {SOURCE / "engine", SOURCE / "store"}
        and path.stem not in told
    ]
    assert not lost
