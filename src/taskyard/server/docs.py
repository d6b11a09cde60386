"""The description of the API, for programs and for people. The page loads nothing from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar import Request, Response, get

from taskyard.server.asks import InPath, viewer
from taskyard.server.gate import ROOT
from taskyard.server.problems import Refusal

PAGES = Path(__file__).with_name("assets")
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}


@get("/openapi.json", opt=viewer, include_in_schema=False)
async def openapi(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    schema = request.app.openapi_schema.to_schema()
    root = request.scope.get(ROOT)
    return Response({**schema, "servers": [{"url": root or "/"}]})


@get("/docs", opt=viewer, include_in_schema=False)
async def page() -> Response[bytes]:
    return Response((PAGES / "docs.html").read_bytes(), media_type="text/html")


@get("/docs/{name:str}", opt=viewer, include_in_schema=False)
async def asset(name: InPath) -> Response[bytes]:
    if name not in ("docs.js", "docs.css"):
        raise Refusal(404, "not_found", "there is no such file")
    path = PAGES / name
    return Response(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix])
