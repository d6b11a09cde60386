"""What a verb sees of the database while its transaction is open."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import apsw
import msgspec

from taskyard.domain.clock import Instant
from taskyard.store.sqlite.clock import SqliteClock
from taskyard.store.sqlite.queries import Queries, load

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def to_json(value: object) -> str:
    """Sets of rows cross into SQLite as one JSON text, because of the GIL.

    Every step of a cursor gives the GIL away and must win it back; with one busy thread beside
    it a statement for each row is a hundred times slower than one for all.
    """
    return _encode(value).decode()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


class AnotherWay(Exception):
    """A job must go another way after all: what it did is undone, and it begins anew."""


class Names:
    """What is remembered from one transaction to the next: numbers of lanes and routes, which never
    change once they are committed, and a guess."""

    def __init__(self) -> None:
        self.particular = False  # whether more was to be said of tasks that ended last; a guess
        self.lanes: dict[str, int] = {}
        self.routes: dict[tuple[str, tuple[str, ...]], int] = {}

    def forget(self) -> None:
        self.lanes.clear()
        self.routes.clear()


class Tx:
    """One open transaction, its clock stopped at its beginning."""

    __slots__ = ("_namespace", "boot", "boot_id", "db", "names", "now")

    def __init__(
        self, db: apsw.Connection, clock: SqliteClock, names: Names, namespace: str
    ) -> None:
        self.db = db
        self.now: Instant = clock.now()
        self.boot: Instant = clock.boot()
        self.boot_id = clock.boot_id
        self.names = names
        self._namespace = namespace

    def sql(self, verb: str) -> Queries:
        return load(verb, self._namespace)

    def run(self, statement: str, *bindings: apsw.SQLiteValue) -> int:
        """Execute, and say how many rows it changed."""
        self.db.execute(statement, bindings)
        return self.db.changes()

    def value(self, statement: str, *bindings: apsw.SQLiteValue) -> Any:
        """The first column of the first row, or None."""
        row = next(self.db.execute(statement, bindings), None)
        return None if row is None else row[0]

    def row_or_none(self, statement: str, *bindings: apsw.SQLiteValue) -> Any:
        """The first row, if there is one."""
        return next(self.db.execute(statement, bindings), None)

    def row(self, statement: str, *bindings: apsw.SQLiteValue) -> tuple[Any, ...]:
        """The only row, which there is."""
        return next(self.db.execute(statement, bindings))

    def rows(self, kind: type[T], statement: str, *bindings: apsw.SQLiteValue) -> T:
        """A statement that answers one JSON text, decoded as `kind`."""
        answer: T = _decoder(cast("Hashable", kind)).decode(self.value(statement, *bindings))
        return answer

    def audit(self, actor: str, entries: Sequence[tuple[str, str, str]]) -> None:
        """Write (action, subject, detail) down for each."""
        if entries:
            self.run(self.sql("upkeep")["audit"], self.now, actor, to_json(entries))


def numbers(things: Iterable[int]) -> str:
    return to_json(list(things))


def span(nos: Collection[int]) -> tuple[int, int] | None:
    """The first and the last of these, if no other number lies between them.

    Tasks that were saved together are mostly claimed and ended together, and a span takes SQLite
    less time than a list.
    """
    first, last = min(nos), max(nos)
    return (first, last) if last - first < len(nos) else None
