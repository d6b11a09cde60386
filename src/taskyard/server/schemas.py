"""The JSON schema of a kind's parameters."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from taskyard.engine.redact import is_secret, without_secrets
from taskyard.engine.registry import Kind


def parameters_of(kind: Kind) -> dict[str, Any]:
    """What JSON cannot say of a type is left open; the signature still checks it."""
    function = inspect.signature(kind.function).parameters
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name, annotation in kind.signature.parameters.items():
        schema, more = _schema(annotation)
        definitions.update(more)
        default = function[name].default
        if default is not inspect.Parameter.empty and (plain := _plain(default)) is not None:
            schema = {**schema, "default": plain[0]}
        properties[name] = schema
    required = [name for name in properties if function[name].default is inspect.Parameter.empty]
    found: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    for one in (found, *definitions.values()):
        _hide_defaults(one.get("properties", {}))
    return {**found, "$defs": definitions} if definitions else found


def _hide_defaults(properties: dict[str, dict[str, Any]]) -> None:
    """A secret that is taken when none is given is nobody's business either."""
    for name, schema in properties.items():
        default = schema.get("default")
        if default is not None and (is_secret(name) or without_secrets(default) != default):
            del schema["default"]


def _schema(annotation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        [schema], definitions = msgspec.json.schema_components(
            [annotation], ref_template="#/$defs/{name}"
        )
    except (TypeError, NotImplementedError):
        return {}, {}
    return schema, definitions


def _plain(value: object) -> tuple[Any] | None:
    try:
        return (msgspec.to_builtins(value),)
    except (TypeError, RecursionError):
        return None
