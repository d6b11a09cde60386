"""The dashboard: files that were built into the package, and one page for every address below.

The shell is open to everybody: it holds nothing, and asks the API for all that it shows.
"""

from __future__ import annotations

import mimetypes
from functools import cache
from pathlib import Path

from litestar import Response, get

from taskyard.server.asks import InPath, anybody
from taskyard.server.problems import Refusal

STATIC = Path(__file__).with_name("static")
SHELL = "index.html"
FOR_EVER = "public, max-age=31536000, immutable"
NAMED_BY_CONTENT = "assets/"  # files whose names change with what is in them


@get("/dashboard", opt=anybody, include_in_schema=False)
async def shell() -> Response[bytes]:
    return _file(SHELL)


@get("/dashboard/{place:path}", opt=anybody, include_in_schema=False)
async def below(place: InPath) -> Response[bytes]:
    """A file, or the shell: which page it shows, it reads from its address itself."""
    name = place.strip("/")
    if name in _files():
        return _file(name)
    if name.startswith(NAMED_BY_CONTENT):
        raise Refusal(404, "not_found", "there is no such file")
    return _file(SHELL)


@cache
def _files() -> dict[str, Path]:
    """By name: no path that is asked for ever touches the disk."""
    found = (path for path in STATIC.rglob("*") if path.is_file())
    return {path.relative_to(STATIC).as_posix(): path for path in found}


def _file(name: str) -> Response[bytes]:
    path = _files().get(name)
    if path is None:
        raise Refusal(
            404, "no_dashboard", "the dashboard is not built: run `make dashboard` in the source"
        )
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(
        path.read_bytes(),
        media_type=kind,
        headers={"Cache-Control": FOR_EVER if name.startswith(NAMED_BY_CONTENT) else "no-cache"},
    )
