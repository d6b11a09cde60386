"""Nodes, their leases, and what becomes of the tasks of those that are gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from taskyard.domain.clock import micros
from taskyard.domain.errors import StoreBusy
from taskyard.domain.node import Ask, Hold, Lease, NewNode, News
from taskyard.domain.outcome import LostRun, Verdict, decide_lost
from taskyard.domain.state import Reason, State
from taskyard.store.port import Rescued
from taskyard.store.postgres.connection import Database, decode
from taskyard.store.postgres.turn import to_json, verdict_args

REGISTER = "SELECT taskyard.register($1, $2, $3, $4, $5, $6, $7, $8)"
BEAT = "SELECT * FROM taskyard.beat($1, $2, $3)"
NEWS = "SELECT * FROM taskyard.news($1)"

_LOST = "SELECT taskyard.lost_nodes($1, $2, $3)"
_FORGET = "SELECT taskyard.forget_node($1, $2, $3, $4, $5, $6, $7)"
_DROP_DUTIES = "DELETE FROM taskyard.duties WHERE holder = $1"
_LOOKS = 10


class _Gone(msgspec.Struct, array_like=True):
    lease: Lease
    node: str
    mark: str  # by which the store knows whether it is still so
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
    return await _take_back(database, clock, dead, ended, _decide_lost, noted=True)


async def retire(database: Database, clock: int, lease: Lease) -> None:
    if not await _take_back(database, clock, [lease], False, _release, noted=False):
        await database.value(_DROP_DUTIES, lease)  # it may have taken one after it was rescued


def _decide_lost(runs: Sequence[LostRun]) -> list[Verdict]:
    return decide_lost(runs)


def _release(runs: Sequence[LostRun]) -> list[Verdict]:
    """Uncharged and in place."""
    return [
        Verdict(
            no=run.no,
            id=run.id,
            attempt=run.attempt,
            state=State.QUEUED,
            reason=Reason.RELEASED,
            keeps_place=True,
        )
        for run in runs
    ]


async def _take_back(
    database: Database,
    clock: int,
    leases: Sequence[Lease],
    ended: bool,
    decide: Callable[[Sequence[LostRun]], list[Verdict]],
    *,
    noted: bool,
) -> list[Rescued]:
    """Look, decide, take back, each node by itself: what changed meanwhile is looked at again.

    Between the calls nothing is locked. Whoever is stopped there keeps nobody waiting.
    """
    rescued: list[Rescued] = []
    for _ in range(_LOOKS):
        answer = await database.value(_LOST, clock, list(leases), ended)
        missed = False
        for gone in decode(list[_Gone], answer):
            verdicts = decide(gone.runs)
            if await database.value(
                _FORGET,
                clock,
                gone.lease,
                gone.lease in leases,
                gone.mark,
                *verdict_args(verdicts),
                len(verdicts) if noted else 0,
            ):
                rescued.append(Rescued(gone.node, gone.lease, verdicts))
            else:
                missed = True
        if not missed:
            return rescued
    if not rescued:
        raise StoreBusy(f"{database.place}: what runs there keeps changing; repeat the call")
    return rescued  # the rest is there to be rescued again
