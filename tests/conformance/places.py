"""Where the suite runs: one maker for each kind of store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from taskyard.domain.clock import Instant
from taskyard.domain.task import new_task_id
from taskyard.store.port import Store
from taskyard.store.postgres.clock import PostgresClock
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.redis.clock import RedisClock
from taskyard.store.redis.store import RedisStore
from taskyard.store.sqlite.clock import SqliteClock
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.url import open_store
from tests.servers import postgres, redis
from tests.servers.schemas import schemas


class StoreTime(Protocol):
    """The clock of a place, in the hands of a test."""

    async def advance(self, seconds: float) -> None:
        """Move the store's time on, for every view of the place."""


class Place(StoreTime, Protocol):
    """Somewhere empty where tasks survive."""

    url: str

    def view(self) -> Store:
        """A store on this place as another process would have it; not open yet."""


class StillClock(SqliteClock):
    """Stands still unless it is moved, so that no test depends on how fast it runs."""

    def __init__(self) -> None:
        super().__init__()
        self._wall = super().now()
        self._since_boot = super().boot()

    def now(self) -> Instant:
        return self._wall + self._offset

    def boot(self) -> Instant:
        return self._since_boot + self._offset


class SqliteFile:
    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'yard.db'}"
        self._clock = StillClock()

    def view(self) -> Store:
        store = open_store(self.url)
        assert isinstance(store, SqliteStore)
        store.clock = self._clock  # one time for every view, as one machine has
        return store

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


class StillRedisClock(RedisClock):
    """The same on a server."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.time_ns() // 1000

    def word(self) -> str:
        return f"={self._start + self._offset}"


class RedisNamespace:
    """A namespace of its own on one server."""

    def __init__(self, _folder: Path) -> None:
        self.url = f"{redis.shared_url()}?namespace=test_{new_task_id()}"
        self._clock = StillRedisClock()

    def view(self) -> Store:
        store = open_store(self.url)
        assert isinstance(store, RedisStore)
        store.clock = self._clock
        return store

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


class StillPostgresClock(PostgresClock):
    """The same on a server of the other kind."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.time_ns() // 1000

    def reading(self) -> Instant:
        return self._start + self._offset


class PostgresSchema:
    """A schema of its own on one server."""

    def __init__(self, _folder: Path, url: str | None = None) -> None:
        self.url = url or f"{postgres.shared_url()}?namespace=test_{new_task_id()}"
        self._clock = StillPostgresClock()

    def view(self) -> Store:
        store = open_store(self.url)
        assert isinstance(store, PostgresStore)
        store.clock = self._clock
        return store

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


Maker = Callable[[Path], Place]

MAKERS: dict[str, Maker] = {
    "sqlite": SqliteFile,
    "redis": RedisNamespace,
    "postgres": PostgresSchema,
}


@contextmanager
def place_of(maker: Maker, folder: Path) -> Iterator[Place]:
    """Somewhere empty, for as long as it is used."""
    if maker is PostgresSchema:
        with schemas().lent() as url:
            yield PostgresSchema(folder, url)
    else:
        yield maker(folder)
