"""Where the yards of a bench stand: files, or schemas and namespaces of a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

STORES = ("sqlite", "postgres", "redis")

UrlOf = Callable[[str], str]


@contextmanager
def ground(store: str, folder: Path) -> Iterator[UrlOf]:
    """While inside: the URL of a yard of any name. A server is our own and goes with its data."""
    if store == "sqlite":
        yield lambda name: f"sqlite:///{folder}/{name}.db"
        return
    server = PostgresServer() if store == "postgres" else RedisServer()
    server.start()
    try:
        yield lambda name: f"{server.url}?namespace={name}"
    finally:
        server.remove()
