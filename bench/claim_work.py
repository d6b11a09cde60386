"""What one claim and its finish cost inside a store, apart from the time they take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import apsw
import msgspec

from taskyard.domain.outcome import Verdict
from taskyard.domain.task import Claimed
from taskyard.store.port import ClaimRequest, Store
from taskyard.store.postgres.store import PostgresStore
from taskyard.store.postgres.turn import TURN, turn_args
from taskyard.store.redis.store import RedisStore
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.sqlite.tx import Tx

Decide = Callable[[Sequence[Claimed]], list[Verdict]]


class Gauge(ABC):
    unit: ClassVar[str]

    @abstractmethod
    async def claim_and_finish(
        self, request: ClaimRequest, decide: Decide
    ) -> tuple[float, list[Claimed]]:
        """Do both, and say what they cost."""


def gauge_of(store: Store) -> Gauge:
    match store:
        case SqliteStore():
            return StepsOfSqlite(store)
        case PostgresStore():
            return PagesOfPostgres(store)
        case RedisStore():
            return MicrosecondsOfRedis(store)
        case _:
            raise TypeError(f"no gauge for {store!r}")


class StepsOfSqlite(Gauge):
    """Instructions of its virtual machine: the same whatever else the machine does."""

    unit = "steps of SQLite"

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._counted = 0

    async def claim_and_finish(
        self, request: ClaimRequest, decide: Decide
    ) -> tuple[float, list[Claimed]]:
        await self._store._write(lambda tx: self._trace(tx, self._note))
        self._counted = 0
        claim = await self._store.claim(request)
        await self._store.finish(decide(claim.tasks))
        counted = self._counted
        await self._store._write(lambda tx: self._trace(tx, None))
        return counted, claim.tasks

    def _note(self, event: dict[str, dict[str, int]]) -> None:
        self._counted += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def _trace(self, tx: Tx, to: Callable[[dict[str, dict[str, int]]], None] | None) -> None:
        tx.db.trace_v2(apsw.SQLITE_TRACE_PROFILE if to else 0, to, id="bench")


class PagesOfPostgres(Gauge):
    """Looks at pages in its buffers, by EXPLAIN: nearly the same whatever else the machine does."""

    unit = "pages of PostgreSQL"

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def claim_and_finish(
        self, request: ClaimRequest, decide: Decide
    ) -> tuple[float, list[Claimed]]:
        claimed = await self._explain((), request)
        # EXPLAIN keeps the answer to itself; the same request again gets the same tasks.
        claim = await self._store.claim(request)
        return claimed + await self._explain(decide(claim.tasks), None), claim.tasks

    async def _explain(self, verdicts: Sequence[Verdict], request: ClaimRequest | None) -> float:
        text = await self._store._database.value(
            f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {TURN}",
            *turn_args(self._store._now, verdicts, request),
        )
        plan = msgspec.json.decode(text)[0]["Plan"]
        return float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


class MicrosecondsOfRedis(Gauge):
    """Time its one thread was busy with the scripts, without the way there and back."""

    unit = "µs inside Redis"

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    async def claim_and_finish(
        self, request: ClaimRequest, decide: Decide
    ) -> tuple[float, list[Claimed]]:
        before = await self._busy()
        claim = await self._store.claim(request)
        await self._store.finish(decide(claim.tasks))
        return await self._busy() - before, claim.tasks

    async def _busy(self) -> float:
        stats: dict[str, Any] = await self._store._link.command("INFO", "commandstats")
        return float(stats["cmdstat_evalsha"]["usec"])
