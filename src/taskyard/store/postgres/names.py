"""Kinds and lanes as the server numbers them. A number stands for one name for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from taskyard.store.postgres.connection import Database

_KINDS = "SELECT no, kind AS name FROM taskyard.routes WHERE no = ANY ($1)"
_LANES = "SELECT no, name FROM taskyard.lanes WHERE no = ANY ($1)"


class Names:
    """Claims answer with numbers; a name is asked for once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.kinds: dict[int, str] = {}  # by route
        self.lanes: dict[int, str] = {}

    async def learn(self, row: Any) -> None:
        """Know the names of every number in this answer."""
        await self._ask(_KINDS, self.kinds, row["o_route"])
        await self._ask(_LANES, self.lanes, row["o_lane"])

    async def _ask(
        self, statement: str, known: dict[int, str], numbers: Iterable[int] | None
    ) -> None:
        unknown = set(numbers or ()).difference(known)
        if unknown:
            for row in await self._database.rows(statement, list(unknown)):
                known[row["no"]] = row["name"]
