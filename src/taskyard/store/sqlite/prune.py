"""Removes what has been kept long enough, a step at a time."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.domain.clock import Instant
from taskyard.domain.retention import Ages, Retention
from taskyard.domain.state import State
from taskyard.store.port import PRUNE_LINES, Mark, PruneStep
from taskyard.store.prune import AUDIT, audit_step, tasks_step
from taskyard.store.sqlite import figures, rates
from taskyard.store.sqlite.tx import Tx, numbers, to_json

_TABLES = (
    *("keys", "payloads", "results", "progress", "failures"),
    *("dependencies", "checkpoints", "traces", "tasks"),
)

Seen = tuple[int, Instant, bool]  # no, ended_at, and whether it goes


def prune(tx: Tx, retention: Retention, mark: Mark, limit: int, actor: str) -> PruneStep:
    if mark.stage == AUDIT:
        lines = tx.run(tx.sql("prune")["drop_audit"], tx.now - retention.audit_age, limit)
        step = audit_step(mark, lines, limit)
        if step.mark is None:
            figures.forget(tx, retention.statistics_age)
            rates.forget_full(tx, limit)
            tx.run(tx.sql("prune")["drop_incarnations"], tx.now + 1)
        return step
    seen = _look(tx, retention.ages(State(mark.stage)), mark, limit)
    old = [no for no, _, goes in seen if goes]
    line = mark.line
    if old:
        if tx.run(tx.sql("prune")["drop_logs"], numbers(old), PRUNE_LINES) == PRUNE_LINES:
            return PruneStep(0, mark=mark)  # the tasks go when their lines have gone
        _remove(tx, old)
        line = _tell(tx, mark, len(old), actor)
    return tasks_step(mark, len(old), _place(seen, limit), line, dry_run=False)


def count(tx: Tx, retention: Retention, mark: Mark, limit: int) -> PruneStep:
    """What a step would remove."""
    seen = _look(tx, retention.ages(State(mark.stage)), mark, limit)
    old = sum(goes for _, _, goes in seen)
    return tasks_step(mark, old, _place(seen, limit), None, dry_run=True)


def _look(tx: Tx, ages: Ages, mark: Mark, limit: int) -> list[Seen]:
    at, _, no = mark.place.partition(":")
    return tx.rows(
        list[Seen],
        tx.sql("prune")["look"],
        mark.stage,
        tx.now - ages.youngest,
        *((int(at), int(no)) if no else (-(2**63), 0)),
        tx.now,
        to_json(ages.kinds),
        to_json(ages.lanes),
        ages.common,
        limit,
    )


def _place(seen: Sequence[Seen], limit: int) -> str:
    if len(seen) < limit:
        return ""
    no, ended_at, _ = seen[-1]
    return f"{ended_at}:{no}"


def _remove(tx: Tx, old: Sequence[int]) -> None:
    sql = tx.sql("prune")
    for table in _TABLES:
        tx.run(sql[f"drop_{table}"], numbers(old))


def _tell(tx: Tx, mark: Mark, removed: int, actor: str) -> int:
    """The line of this run, in the place of the one its last step wrote."""
    sql = tx.sql("prune")
    if mark.line is not None:
        tx.run(sql["drop_line"], mark.line)
    tx.audit(actor, [("prune", "yard", str(mark.removed + removed))])
    line: int = tx.value(sql["newest_line"])
    return line
