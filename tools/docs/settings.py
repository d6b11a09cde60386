"""The page of settings: names, types and defaults from the code, words from the guide."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from taskyard.settings import Settings, load, variable
from tools.docs.markdown import code, generated, table

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "settings.md"
_ROW = re.compile(r"^\| (`[^|]*`) \|[^|]*\| *(.*?) *\|$", re.MULTILINE)


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Settings", "")
    yield generated("`taskyard.settings`")
    yield "[The guide](../guides/settings.md) says where settings come from."
    told, types = words(), _types()
    rows = [
        (
            f"{code(each.name)}<br>{code(variable(each.name))}",
            code(types[each.name]),
            _shown(each.value),
            _from_here(told.get(each.name, "")),
        )
        for each in load(environ={}, folder=Path("/nonexistent")).each
    ]
    yield from table(("setting, variable", "type", "default", ""), rows)


def words() -> Mapping[str, str]:
    """What the table of the guide says of each setting."""
    found: dict[str, str] = {}
    for names, text in _ROW.findall(GUIDE.read_text("utf-8")):
        for name in re.findall(r"`([a-z_.]+)`", names):
            found[name] = text
    return found


def _from_here(text: str) -> str:
    """The guide links to its neighbours."""
    return re.sub(r"\]\((\w+\.md)", r"](../guides/\1", text)


def _types() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, kind in get_type_hints(Settings).items():
        fields = get_type_hints(kind) if hasattr(kind, "__struct_fields__") else {}
        for field, inner in fields.items():
            found[f"{name}.{field}"] = _plain(inner)
        if not fields:
            found[name] = _plain(kind)
    return found


def _plain(kind: Any) -> str:
    """An enum is one of the words that the guide names."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "str"
    return inspect.formatannotation(kind)


def _shown(value: Any) -> str:
    match value:
        case None | "" | [] | {}:
            return "none"
        case bool():
            return code(str(value).lower())
        case float():
            return code(f"{value:g}")
        case _:
            return code(str(value))
