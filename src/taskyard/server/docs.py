"""The description of the API, for programs and for people. The page loads nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.routes import HTTPRoute

from taskyard.server import problems
from taskyard.server.asks import ANYBODY, ROLE, InPath, viewer
from taskyard.server.gate import ROOT
from taskyard.server.problems import Problem, Refusal

PAGES = Path(__file__).with_name("assets")
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
SCHEMAS = "#/components/schemas/"


@get("/openapi.json", opt=viewer, include_in_schema=False)
async def openapi(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    root = request.scope.get(ROOT)
    return Response({**described(request.app), "servers": [{"url": root or "/"}]})


def described(app: Litestar) -> dict[str, Any]:
    """What the framework knows of the routes, and of each what it does not: how errors look, and
    whether it asks for a token."""
    schema = app.openapi_schema.to_schema()
    _, shapes = msgspec.json.schema_components([Problem], ref_template=SCHEMAS + "{name}")
    schema["components"]["schemas"].update(shapes)
    refused = {
        "description": "Refused, or failed: `code` says why",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": SCHEMAS + Problem.__name__}}},
    }
    for path, method in _open_to_anybody(app):
        schema["paths"][path][method]["security"] = []
    for item in schema["paths"].values():
        for operation in item.values():
            operation["responses"].pop("400", None)  # as the framework would answer
            operation["responses"].get("204", {}).pop("content", None)
            operation["responses"]["default"] = refused
    return schema


def _open_to_anybody(app: Litestar) -> Iterator[tuple[str, str]]:
    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            if handler.opt.get(ROLE) == ANYBODY and handler.include_in_schema:
                yield from ((route.path_format, method.lower()) for method in handler.http_methods)


@get("/docs", opt=viewer, include_in_schema=False)
async def page() -> Response[bytes]:
    return Response((PAGES / "docs.html").read_bytes(), media_type="text/html")


@get("/docs/{name:str}", opt=viewer, include_in_schema=False)
async def asset(name: InPath) -> Response[bytes]:
    if name not in ("docs.js", "docs.css"):
        raise Refusal(404, "not_found", "there is no such file")
    path = PAGES / name
    return Response(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix])
