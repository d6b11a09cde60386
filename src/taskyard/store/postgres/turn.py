"""Turns verdicts and a claim into the arguments of sql turn, and its row into answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.state import State, require
from taskyard.domain.task import Claimed
from taskyard.store.port import Claim, ClaimRequest

TURN = "SELECT * FROM taskyard.turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"

_COLUMNS = (
    "o_no",
    "o_id",
    "o_kind",
    "o_lane",
    "o_attempt",
    "o_charged",
    "o_max_charged",
    "o_timeout",
    "o_payload",
    "o_keyed",
)


def turn_args(
    offset: int, verdicts: Sequence[Verdict], request: ClaimRequest | None
) -> tuple[object, ...]:
    """Completed tasks go as arrays, for there are many; whatever else as one JSON text."""
    completed: list[Verdict] = []
    others: list[Verdict] = []
    seen: set[tuple[int, int]] = set()
    for verdict in verdicts:
        require(verdict.id, State.RUNNING, verdict.state, verdict.reason)
        fence = (verdict.no, verdict.attempt)
        if fence not in seen:  # of two verdicts for one attempt the first counts
            seen.add(fence)
            plain = verdict.state is State.COMPLETED and verdict.error is None
            (completed if plain else others).append(verdict)
    asked: tuple[int | None, ...] = (None, None, 0, 0)
    if request is not None:
        asked = (request.lease, request.number, max(0, request.room), max(0, request.ahead))
    return (
        offset,
        [v.no for v in completed],
        [v.attempt for v in completed],
        [v.result for v in completed],
        *verdict_args(others),
        *asked,
    )


def verdict_args(verdicts: Sequence[Verdict]) -> tuple[str | None, list[str | None]]:
    """A JSON list for PostgreSQL to read, and the errors beside it, which it only keeps.

    It cannot read a JSON text with a NUL in it, and a traceback may hold anything.
    """
    if not verdicts:
        return None, []
    bare = [msgspec.structs.replace(verdict, error=None) for verdict in verdicts]
    errors = [None if v.error is None else to_json(v.error) for v in verdicts]
    return to_json(bare), errors


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def finished(verdicts: Sequence[Verdict], row: Any) -> list[Finished | Stale]:
    accepted = set(zip(row["o_accepted"] or (), row["o_accepted_attempt"] or (), strict=True))
    cancelled = frozenset(row["o_cancelled"] or ())
    answers: list[Finished | Stale] = []
    for verdict in verdicts:
        fence = (verdict.no, verdict.attempt)
        if fence in accepted:
            accepted.remove(fence)
            state = State.CANCELLED if verdict.no in cancelled else verdict.state
            answers.append(Finished(verdict.no, state))
        else:
            answers.append(Stale(verdict.no, verdict.attempt))
    return answers


def claimed(row: Any) -> Claim:
    columns = [row[name] for name in _COLUMNS]
    tasks = list(map(Claimed, *columns)) if columns[0] else []
    return Claim(
        tasks, frozenset(row["o_ahead"] or ()), more=bool(row["o_more"]), refused=row["o_refused"]
    )
