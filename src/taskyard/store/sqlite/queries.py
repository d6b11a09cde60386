"""Loads the `.sql` files beside this one: one file a verb, several named statements a file."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_NAME = re.compile(r"^-- :(\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n|\s+-- .*$", re.MULTILINE)
DEFAULT_NAMESPACE = "taskyard"


class Queries:
    """`Queries("claim")["take"]` is the statement named take in sql/claim.sql."""

    def __init__(self, verb: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        text = in_namespace(
            (files(__package__) / "sql" / f"{verb}.sql").read_text("utf-8"), namespace
        )
        parts = _NAME.split(text)
        self._statements = MappingProxyType(
            {
                name: _COMMENT.sub("", body[body.index("\n") :]).strip()
                for name, body in zip(parts[1::2], parts[2::2], strict=True)
            }
        )

    def __getitem__(self, name: str) -> str:
        return self._statements[name]

    def __iter__(self) -> object:
        return iter(self._statements)


def in_namespace(sql: str, namespace: str) -> str:
    """Tables are called taskyard_…; another namespace has tables of its own.

    Two underscores, for taskyard_node_routes could else be the routes of a namespace `node`.
    """
    if namespace == DEFAULT_NAMESPACE:
        return sql
    return sql.replace("taskyard_", f"taskyard_{namespace}__")


@cache
def load(verb: str, namespace: str) -> Queries:
    return Queries(verb, namespace)


def migrations() -> list[tuple[int, str]]:
    """(version, SQL) of every migration, in order."""
    folder = files(__package__) / "migrations"
    found = [
        (int(entry.name[:4]), entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found)
