"""Takes back what dead nodes ran."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.node import Lease
from taskyard.domain.outcome import LostRun, Verdict, decide_lost
from taskyard.domain.state import Reason, State
from taskyard.store.port import Rescued
from taskyard.store.sqlite import dependencies
from taskyard.store.sqlite.finish import finish
from taskyard.store.sqlite.tx import Tx, numbers
from taskyard.store.sqlite.unreadable import UNREADABLE


def rescue(tx: Tx, dead: Sequence[Lease], ended: bool) -> list[Rescued]:
    gone = tx.rows(
        list[tuple[Lease, str]],
        tx.sql("upkeep")["ended_leases"],
        tx.boot_id,
        tx.boot,
        numbers(dead),
        int(ended),
    )
    return [_rescue_from(tx, lease, node) for lease, node in gone]


def _rescue_from(tx: Tx, lease: Lease, node: str) -> Rescued:
    runs = _runs(tx, lease)
    verdicts = decide_lost(runs)
    finish(tx, verdicts)
    forget_node(tx, lease)
    if verdicts:
        tx.audit("system", [("rescue", f"node:{node}", f"{len(verdicts)} tasks")])
    return Rescued(node, lease, verdicts)


def _runs(tx: Tx, lease: Lease) -> list[LostRun]:
    """What runs under a lease, but for what cannot be read."""
    read = tx.sql("upkeep")["runs"]
    try:
        return tx.rows(list[LostRun], read, lease)
    except UNREADABLE:
        dependencies.set_aside(tx, tx.rows(list[int], tx.sql("unreadable")["under"], lease))
        return tx.rows(list[LostRun], read, lease)


def release_all(tx: Tx, lease: Lease) -> None:
    """Everything that still runs under a lease goes back uncharged and in place."""
    runs = _runs(tx, lease)
    finish(
        tx,
        [
            Verdict(
                no=run.no,
                id=run.id,
                attempt=run.attempt,
                state=State.QUEUED,
                reason=Reason.RELEASED,
                keeps_place=True,
            )
            for run in runs
        ],
    )


def forget_node(tx: Tx, lease: Lease) -> None:
    sql = tx.sql("upkeep")
    tx.run(sql["drop_node_routes"], lease)
    tx.run(sql["drop_node"], lease)
    tx.run(sql["end_incarnation"], lease, tx.now)
    tx.run(sql["drop_duties"], lease)
