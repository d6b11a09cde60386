"""Parameters of a kind, as its JSON schema tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
    "array": list[Any],
    "object": dict[str, Any],
}


def type_of(schema: Mapping[str, Any]) -> Any:
    """What tells a text from other JSON; the server checks the rest."""
    if "anyOf" in schema:
        kinds = [type_of(one) for one in schema["anyOf"]]
        found = kinds[0]
        for kind in kinds[1:]:
            found = Any if Any in (found, kind) else found | kind
        return found
    if "enum" in schema and all(isinstance(value, str) for value in schema["enum"]):
        return str
    return _TYPES.get(schema.get("type", ""), Any)
