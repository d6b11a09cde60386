"""Where a crash run's store lives, and how to strike it down and raise it again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer


class Place(Protocol):
    url: str
    blows: tuple[signal.Signals, ...]  # the ways to strike it down, none if nothing is there

    def start(self) -> None: ...

    def stop(self, how: signal.Signals) -> None: ...

    def remove(self) -> None: ...


class SqlitePlace:
    """A file: there is no server to kill."""

    blows: tuple[signal.Signals, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'yard.db'}"

    def start(self) -> None:
        """The file is made by whoever opens it first."""

    def stop(self, how: signal.Signals) -> None:
        raise AssertionError("there is nothing to stop")

    def remove(self) -> None:
        """It goes with its folder."""


class ServerPlace:
    """A server of our own, with what it wrote surviving every blow."""

    def __init__(
        self, server: PostgresServer | RedisServer, blows: tuple[signal.Signals, ...]
    ) -> None:
        self.server = server
        self.url = server.url
        self.blows = blows

    def start(self) -> None:
        self.server.start()

    def stop(self, how: signal.Signals) -> None:
        self.server.stop(how)

    def remove(self) -> None:
        self.server.remove()


def _postgres(_folder: Path) -> Place:
    """SIGQUIT is its immediate shutdown."""
    return ServerPlace(PostgresServer(), (signal.SIGKILL, signal.SIGQUIT))


def _redis(_folder: Path) -> Place:
    return ServerPlace(RedisServer("--appendfsync", "always"), (signal.SIGKILL,))


PLACES: dict[str, Callable[[Path], Place]] = {
    "sqlite": SqlitePlace,
    "postgres": _postgres,
    "redis": _redis,
}
