"""The dashboard: files that were built into the package, and one page for every address below.

The shell is open to everybody: it holds nothing, and asks the API for all that it shows.
"""

from __future__ import annotations

import html
import mimetypes
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from litestar import Request, Response, get

from taskyard.server.asks import InPath, anybody
from taskyard.server.gate import ROOT
from taskyard.server.gate import SHELL as MOUNTED_AT
from taskyard.server.problems import Refusal

STATIC = Path(__file__).with_name("static")
SHELL = "index.html"
FOR_EVER = "public, max-age=31536000, immutable"
NAMED_BY_CONTENT = "assets/"  # files whose names change with what is in them


@get("/dashboard", opt=anybody, include_in_schema=False)
async def shell(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _shell(request)


@get("/dashboard/{place:path}", opt=anybody, include_in_schema=False)
async def below(request: Request[Any, Any, Any], place: InPath) -> Response[bytes]:
    """A file, or the shell: which page it shows, it reads from its address itself."""
    name = place.strip("/")
    if name == SHELL or name not in _files():
        if name.startswith(NAMED_BY_CONTENT):
            raise Refusal(404, "not_found", "there is no such file")
        return _shell(request)
    return _answer(name, _files()[name])


@cache
def _files() -> dict[str, bytes]:
    """By name, read once: no path that is asked for ever touches the disk."""
    found = (path for path in STATIC.rglob("*") if path.is_file())
    return {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in found}


def _shell(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Its files are named from the root of the host, so that they are found from every page; below
    a prefix, that is in front of them."""
    page = _files().get(SHELL)
    if page is None:
        raise Refusal(
            404, "no_dashboard", "the dashboard is not built: run `make web` in the source"
        )
    if root := request.scope.get(ROOT):
        prefix = html.escape(quote(str(root)))
        page = page.replace(f'"{MOUNTED_AT}/'.encode(), f'"{prefix}{MOUNTED_AT}/'.encode())
    return _answer(SHELL, page)


def _answer(name: str, content: bytes) -> Response[bytes]:
    return Response(
        content,
        media_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
        headers={"Cache-Control": FOR_EVER if name.startswith(NAMED_BY_CONTENT) else "no-cache"},
    )
