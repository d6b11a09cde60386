"""A server over a yard in a file, and callers of each role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from taskyard import Context, Fatal, Retry, Yard
from taskyard.server.app import Server, create_app
from taskyard.server.config import ServerConfig
from taskyard.server.roles import Role

HOST = "127.0.0.1:8321"
BASE = f"http://{HOST}"


class Address:
    """Not JSON's own types, to see how a schema tells them."""


def make_yard(folder: Path, url: str | None = None) -> Yard:
    yard = Yard(url or f"sqlite:///{folder / 'yard.db'}")

    @yard.task()
    async def greet(name: str, times: int = 1) -> str:
        """Says hello."""
        return ", ".join(f"hello {name}" for _ in range(times))

    @yard.task(retry=Retry.never())
    async def fail(message: str = "boom", password: str = "") -> None:
        raise Fatal(f"{message} {password}")

    @yard.task(lane="downloads", timeout=1800)
    async def download(ctx: Context, url: str = "https://example.org/feed") -> str:
        return url

    return yard


class Place:
    def __init__(self, folder: Path, *, url: str | None = None, **config: Any) -> None:
        self.folder = folder
        self.yard = make_yard(folder, url)
        self.config = ServerConfig(folder=folder / "server", **config)
        self.server: Server = create_app(self.yard, self.config)
        self.tokens = {
            role: self.server.keyring.issue(role, role, days=1, by="test")[0] for role in Role
        }
        self._clients: list[httpx.AsyncClient] = []

    def caller(self, role: Role | None = Role.OPERATOR, **headers: str) -> httpx.AsyncClient:
        """One who shows a token of this role, or none."""
        shown = {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.server), base_url=BASE, headers={**shown, **headers}
        )
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()
        await self.server.stop()
        await self.yard.close()
