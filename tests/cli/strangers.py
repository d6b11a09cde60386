"""Servers that are no Taskyard, or another one than ours: each says the same to everybody."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.cli.program import PATIENCE

PROBLEM = "application/problem+json"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    status: int = 200
    kind: str = "text/html"
    content: str = "<html>"  # `{authorization}` in it is what the caller has sent
    location: str | None = None
    missing: int = 0  # bytes that are announced and never come
    version: str | None = None  # what it says at /api/yard, if that is something else


def problem(status: int, code: str, detail: str = "", **more: Any) -> Said:
    text = json.dumps({"status": status, "code": code, "detail": detail})
    return Said(status=status, kind=PROBLEM, content=text, **more)


@contextmanager
def stranger(said: Said) -> Iterator[str]:
    """Its URL. It is stopped however the block ends: a server whose socket is closed under it would
    turn around itself for ever."""
    who = type("Who", (_Stranger,), {"said": said})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), who) as it:
        thread = threading.Thread(target=it.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{it.server_port}"
        finally:
            it.shutdown()
            thread.join(PATIENCE)


class _Stranger(http.server.BaseHTTPRequestHandler):
    said: Said

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        said = self.said
        if said.version is not None and self.path == "/api/yard":
            said = Said(kind="application/json", content=json.dumps({"version": said.version}))
        text = said.content.replace("{authorization}", self.headers.get("Authorization", ""))
        content = text.encode()
        self.send_response(said.status)
        self.send_header("Content-Type", said.kind)
        self.send_header("Content-Length", str(len(content) + said.missing))
        if said.location is not None:
            self.send_header("Location", said.location)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is overridden
        """Not on our stderr."""
