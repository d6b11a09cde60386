"""The page of the HTTP API, from the server's own OpenAPI description."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from taskyard import Yard
from taskyard.server.app import create_app
from taskyard.server.asks import ROLE
from taskyard.server.config import ServerConfig
from tools.docs.markdown import code, generated, table

JSON = "application/json"
METHODS = ("get", "post", "put", "patch", "delete")
SCHEMAS = "#/components/schemas/"


def described() -> tuple[Mapping[str, Any], Mapping[tuple[str, str], str]]:
    """The description, and the role that each route is for."""
    with tempfile.TemporaryDirectory() as folder:
        yard = Yard(f"sqlite:///{folder}/yard.db")
        app = create_app(yard, ServerConfig(folder=Path(folder) / "server")).litestar
        roles = {
            (method.lower(), getattr(route, "path_format", route.path)): str(handler.opt[ROLE])
            for route in app.routes
            for handler in getattr(route, "route_handlers", ())
            if ROLE in handler.opt
            for method in getattr(handler, "http_methods", ())
        }
        return app.openapi_schema.to_schema(), roles


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    description, roles = described()
    yield from ("# HTTP API", "")
    yield generated("the server's OpenAPI description")
    yield "A running server shows it at `/api/docs`; [the guide](../guides/server.md) explains it."
    yield "Whatever is answered with 400 or more is a [problem](errors.md#over-http)."
    yield ""
    for tag, operations in _by_tag(description).items():
        yield from (f"## {tag.capitalize()}", "")
        for method, path, operation in operations:
            yield from _operation(method, path, operation, roles[method, path])
    yield from ("## Schemas", "")
    for name, schema in sorted(description["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _by_tag(
    description: Mapping[str, Any],
) -> Mapping[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: defaultdict[str, list[tuple[str, str, Mapping[str, Any]]]] = defaultdict(list)
    for path, operations in description["paths"].items():
        for method in METHODS:
            if method in operations:
                operation = operations[method]
                found[operation.get("tags", ["server"])[0]].append((method, path, operation))
    return found


def _operation(method: str, path: str, operation: Mapping[str, Any], role: str) -> Iterator[str]:
    yield from (f"### `{method.upper()} {path}`", "")
    whom = "For anybody." if role == "anybody" else f"For the role `{role}`."
    yield from (f"{operation['summary'].rstrip('.')}. {whom}", "")
    if text := operation.get("description", "").strip():
        yield from (text, "")
    yield from table(
        ("parameter", "in", "type", ""),
        [
            (code(one["name"]), one["in"], _type(one["schema"]), _limits(one))
            for one in operation.get("parameters", ())
        ],
    )
    if body := operation.get("requestBody"):
        yield from (f"Body: {_content(body)}", "")
    answers = [
        f"{status}{': ' if content else ''}{content}"
        for status, answer in operation["responses"].items()
        if int(status) < 400
        for content in [_content(answer)]
    ]
    yield from (f"Answers {', '.join(answers)}", "")


def _content(holder: Mapping[str, Any]) -> str:
    for kind, content in holder.get("content", {}).items():
        return _type(content["schema"]) if kind == JSON and content.get("schema") else code(kind)
    return ""


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"### `{name}` {{ #{_anchor(name)} }}", "")
    if text := schema.get("description", "").strip():
        yield from (text, "")
    if "enum" in schema:
        yield from (", ".join(code(str(value)) for value in schema["enum"]), "")
    needed = set(schema.get("required", ()))
    yield from table(
        ("field", "type", "needed", ""),
        [
            (code(field), _type(inner), "yes" if field in needed else "", _about(inner))
            for field, inner in schema.get("properties", {}).items()
        ],
    )


def _anchor(name: str) -> str:
    """Of its own: some schemas are called like the things that routes are about."""
    return f"schema-{name.lower()}"


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": str(name)}:
            name = name.removeprefix(SCHEMAS)
            return f"[`{name}`](#{_anchor(name)})"
        case {"oneOf": list(choices)} | {"anyOf": list(choices)}:
            return " or ".join(_type(one) for one in choices)
        case {"type": "array", "items": dict(items)}:
            return f"array of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)} if values:
            return f"object of {_type(values)}"
        case {"type": list(kinds)}:
            return " or ".join(kinds)
        case {"const": value}:
            return code(str(value))
        case {"enum": list(values)}:
            return " or ".join(code(str(value)) for value in values)
        case {"type": str(kind)}:
            return kind
        case _:
            return "anything"


def _limits(parameter: Mapping[str, Any]) -> str:
    words = [_about(parameter["schema"])]
    if parameter.get("required") and parameter["in"] != "path":
        words.insert(0, "needed")
    return "; ".join(word for word in words if word)


LIMITS = {
    "minimum": "from {:g}",
    "maximum": "to {:g}",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} items",
}


def _about(schema: Mapping[str, Any]) -> str:
    words = [schema["description"]] if "description" in schema else []
    words += [text.format(schema[name]) for name, text in LIMITS.items() if name in schema]
    if schema.get("default") not in (None, "", [], {}):
        words.append(f"default `{schema['default']}`")
    return ", ".join(words)
