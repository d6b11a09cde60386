"""Nodes, their leases, and what becomes of the tasks of those that are gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import micros
from taskyard.domain.node import Ask, Hold, Lease, NewNode, News
from taskyard.domain.outcome import LostRun, Verdict, decide_lost
from taskyard.domain.state import Reason, State
from taskyard.store.port import Rescued
from taskyard.store.postgres.connection import Database, decode
from taskyard.store.postgres.turn import to_json, verdict_args

REGISTER = "SELECT taskyard.register($1, $2, $3, $4, $5, $6, $7, $8)"
BEAT = "SELECT * FROM taskyard.beat($1, $2)"
NEWS = "SELECT * FROM taskyard.news($1)"

_LOST = "SELECT taskyard.lost_runs($1, $2, $3)"
_FORGET = "SELECT taskyard.forget_node($1, $2, $3, $4, $5)"


class _Gone(msgspec.Struct, array_like=True):
    lease: Lease
    node: str
    runs: list[LostRun]


def register_args(clock: int, node: NewNode) -> tuple[object, ...]:
    return (
        clock,
        node.id,
        list(node.kinds),
        list(node.capabilities),
        to_json(node.labels),
        node.slots,
        to_json(node.process) if node.process else None,
        micros(node.lease_seconds),
    )


def news(row: Any) -> News:
    if row["o_lost"]:
        return News(lost=True)
    asks = zip(row["o_no"] or (), row["o_attempt"] or (), row["o_asked"] or (), strict=True)
    return News(asks=tuple(Ask(*ask) for ask in asks))


async def holds(database: Database, lease: Lease) -> list[Hold]:
    found = await database.read(list[tuple[int, int, int]], "holds", lease)
    return [Hold(*hold) for hold in found]


async def rescue(
    database: Database, clock: int, dead: Sequence[Lease], ended: bool
) -> list[Rescued]:
    return await _take_back(database, clock, dead, ended, decide_lost, noted=True)


async def retire(database: Database, clock: int, lease: Lease) -> None:
    await _take_back(database, clock, [lease], False, _release, noted=False)


def _release(run: LostRun) -> Verdict:
    """Uncharged and in place."""
    return Verdict(
        no=run.no,
        id=run.id,
        attempt=run.attempt,
        state=State.QUEUED,
        reason=Reason.RELEASED,
        keeps_place=True,
    )


async def _take_back(
    database: Database,
    clock: int,
    leases: Sequence[Lease],
    ended: bool,
    decide: Callable[[LostRun], Verdict],
    *,
    noted: bool,
) -> list[Rescued]:
    """One transaction: the nodes are locked, so nothing is claimed for them while we decide."""
    rescued: list[Rescued] = []
    lost, forget = database.here(_LOST), database.here(_FORGET)
    async with database.transaction() as tx:
        found = decode(list[_Gone], await tx.fetchval(lost, clock, list(leases), ended))
        for gone in found:
            verdicts = [decide(run) for run in gone.runs]
            count = len(verdicts) if noted else 0
            await tx.execute(forget, clock, gone.lease, *verdict_args(verdicts), count)
            rescued.append(Rescued(gone.node, gone.lease, verdicts))
    return rescued
