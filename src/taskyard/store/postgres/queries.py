"""Loads the SQL beside this file: migrations, functions (one a verb) and statements that read."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files

DEFAULT_NAMESPACE = "taskyard"

_NAME = re.compile(r"^-- :(\w+)", re.MULTILINE)
_SCHEMA = re.compile(r"\btaskyard\.")

# Plans are made when the tables may be empty and are kept for long. What is good for an empty table
# (read it all, begin with it) is ruinous for a full one, and every access here has its index.
CAREFUL_PLANS = """SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
SET jit = off"""


def schema_name(namespace: str) -> str:
    return "taskyard" if namespace == DEFAULT_NAMESPACE else f"taskyard_{namespace}"


@cache
def in_namespace(sql: str, namespace: str) -> str:
    """Every name is qualified, so that no statement depends on the session it runs in."""
    return _SCHEMA.sub(f"{schema_name(namespace)}.", sql)


@cache
def statements(namespace: str) -> dict[str, str]:
    """The named statements of sql/*.sql."""
    found: dict[str, str] = {}
    for _, text in _texts("sql"):
        parts = _NAME.split(in_namespace(text, namespace))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            found[name] = body[body.index("\n") :].strip()
    return found


@cache
def functions(namespace: str) -> tuple[str, ...]:
    """The texts that make the functions, in the order in which they can be made."""
    return tuple(
        in_namespace(text.replace("{careful_plans}", CAREFUL_PLANS), namespace)
        for _, text in _texts("functions")
    )


@cache
def functions_hash() -> str:
    return hashlib.sha256("\0".join(functions(DEFAULT_NAMESPACE)).encode()).hexdigest()[:16]


def migrations(namespace: str) -> list[tuple[int, str]]:
    """(version, SQL) of every migration, in order."""
    return [(int(name[:4]), in_namespace(text, namespace)) for name, text in _texts("migrations")]


def _texts(folder: str) -> list[tuple[str, str]]:
    entries = (files(__package__) / folder).iterdir()
    return sorted(
        (entry.name, entry.read_text("utf-8")) for entry in entries if entry.name.endswith(".sql")
    )
