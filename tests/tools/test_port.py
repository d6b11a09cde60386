"""The port is where the stores end: what it promises is said there, and drivers stay behind it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskyard.store.port import Store

SOURCE = Path(__file__).parents[2] / "src" / "taskyard"
DRIVERS = {"apsw", "asyncpg", "psycopg", "redis", "sqlalchemy", "sqlite3"}
VERBS = [name for name in vars(Store) if not name.startswith("_")]


@pytest.mark.spec("engine-31")
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_the_port_says_what_it_does(verb: str) -> None:
    said = inspect.getdoc(getattr(Store, verb)) or ""
    assert said.partition("\n\n")[0].rstrip().endswith((".", "?"))


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]
            case _:
                pass


@pytest.mark.spec("engine-31")
def test_sql_lua_and_drivers_are_in_the_stores_alone() -> None:
    outside = [path for path in SOURCE.rglob("*") if SOURCE / "store" not in path.parents]
    assert [path for path in outside if path.suffix in {".sql", ".lua"}] == []
    python = [path for path in outside if path.suffix == ".py"]
    assert python
    assert [path for path in python if DRIVERS & set(imported(path))] == []
