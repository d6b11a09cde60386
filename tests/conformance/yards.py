"""One empty yard in each kind of store, all with the same time, again and again."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import asyncpg

from taskyard.domain.clock import seconds
from taskyard.store.port import Store
from taskyard.store.postgres.options import read_options
from taskyard.store.postgres.queries import schema_name
from tests.conformance.places import MAKERS, Place

MEMORY = Path("/dev/shm")  # nothing here is about disks

_EMPTY = "DELETE FROM {schema}.{table};"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> 'meta'"


class OpenYard(NamedTuple):
    place: Place
    store: Store


class Yards:
    """A file and a namespace are made anew each time; a schema takes longer, so it is emptied."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self._made = 0
        self._schema: OpenYard | None = None

    async def open(self) -> Mapping[str, OpenYard]:
        yards = {name: self._make(name) for name in MAKERS}
        await asyncio.gather(*(yard.store.open() for yard in yards.values()))
        if self._schema is not None:
            await _empty(self._schema)
        self._schema = yards.get("postgres")
        await _set_clocks(list(yards.values()))
        return yards

    def _make(self, name: str) -> OpenYard:
        if name == "postgres" and self._schema is not None:
            return self._schema
        self._made += 1
        folder = Path(self._folder.name) / str(self._made)
        folder.mkdir()
        place = MAKERS[name](folder)
        return OpenYard(place, place.view())

    async def close(self, yards: Mapping[str, OpenYard]) -> None:
        """Those that are not opened again."""
        for name, yard in yards.items():
            if name != "postgres":
                await yard.store.close()

    async def end(self) -> None:
        if self._schema is not None:
            await self._schema.store.close()
        self._folder.cleanup()


async def _set_clocks(yards: list[OpenYard]) -> None:
    times = [await yard.store.now() for yard in yards]
    for yard, time in zip(yards, times, strict=True):
        await yard.place.advance(seconds(max(times) - time))


async def _empty(yard: OpenYard) -> None:
    """Rows only: numbers go on counting, as they may."""
    await yard.store.pause_yard(False, actor="the next example")
    options = read_options(yard.place.url)
    schema = schema_name(options.namespace)
    connection = await asyncpg.connect(options.dsn)
    try:
        tables = [row["tablename"] for row in await connection.fetch(_TABLES, schema)]
        await connection.execute(
            "".join(_EMPTY.format(schema=schema, table=table) for table in tables)
        )
    finally:
        await connection.close()
