"""Turns verdicts and a claim into the arguments of sql turn, and its row into answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, TypeVar

import msgspec

from taskyard.domain.node import Lease
from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.state import State, require
from taskyard.domain.task import Claimed
from taskyard.domain.trace import Origin
from taskyard.store.port import Claim, ClaimRequest
from taskyard.store.postgres.names import Names

T = TypeVar("T")

TURN = "SELECT * FROM taskyard.take_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"

_origins = msgspec.json.Decoder(dict[int, Origin]).decode


def turn_args(
    offset: int, verdicts: Sequence[Verdict], request: ClaimRequest | None
) -> tuple[object, ...]:
    """Completed tasks go as arrays, for there are many; whatever else as one JSON text."""
    _check(verdicts)
    leases = list({v.lease for v in verdicts})
    verdicts = _first_ones(verdicts)
    well = State.COMPLETED
    completed = [v for v in verdicts if v.state is well and v.error is None]
    others: list[Verdict] = []
    if len(completed) < len(verdicts):
        others = [v for v in verdicts if v.state is not well or v.error is not None]
    asked: tuple[int | None, ...] = (None, None, 0, 0)
    if request is not None:
        asked = (request.lease, request.number, max(0, request.room), max(0, request.ahead))
    return (
        offset,
        [v.no for v in completed],
        _shortened([v.attempt for v in completed]),
        _shortened([v.lease for v in completed]),
        _shortened([v.result for v in completed]),
        *verdict_args(others),
        leases,
        *asked,
    )


def _check(verdicts: Sequence[Verdict]) -> None:
    """Each that is of another sort than the one before: nearly all have ended well."""
    state = reason = None
    for verdict in verdicts:
        if verdict.state is not state or verdict.reason is not reason:
            state, reason = verdict.state, verdict.reason
            require(verdict.id, State.RUNNING, state, reason)


def _shortened(values: list[T]) -> list[T]:
    """One in place of many that are the same: the driver looks at each element of an array."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def _first_ones(verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """Of two verdicts that could be for the same attempt the first counts."""
    if len({v.no for v in verdicts}) == len(verdicts):
        return verdicts
    first: list[Verdict] = []
    seen: dict[tuple[int, int], set[Lease]] = {}
    for verdict in verdicts:
        leases = seen.setdefault((verdict.no, verdict.attempt), set())
        if not leases or (0 not in leases and verdict.lease and verdict.lease not in leases):
            leases.add(verdict.lease)
            first.append(verdict)
    return first


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
    ended = row["o_ended"]
    if ended == len(verdicts) and not row["o_cancelled"] and not row["o_paused"]:
        return [
            Finished(verdict.no, verdict.state) for verdict in verdicts
        ]  # each was accepted once
    if ended and row["o_accepted"] is None:  # all that were sent
        accepted = {(v.no, v.attempt): v.lease for v in _first_ones(verdicts)}
    else:
        columns = (row["o_accepted"], row["o_accepted_attempt"], row["o_accepted_lease"])
        listed = zip(*(column or () for column in columns), strict=True)
        accepted = {(no, attempt): lease for no, attempt, lease in listed}
    heeded = dict.fromkeys(row["o_cancelled"] or (), State.CANCELLED)
    heeded |= dict.fromkeys(row["o_paused"] or (), State.PAUSED)
    answers: list[Finished | Stale] = []
    for verdict in verdicts:
        fence = (verdict.no, verdict.attempt)
        lease = accepted.get(fence)
        if lease is not None and verdict.lease in (0, lease):
            del accepted[fence]
            answers.append(Finished(verdict.no, heeded.get(verdict.no, verdict.state)))
        else:
            answers.append(Stale(verdict.no, verdict.attempt))
    return answers


def claimed(row: Any, request: ClaimRequest, names: Names) -> Claim:
    """The names of all numbers in the row have been learned."""
    tasks: list[Claimed] = []
    now, nos = row["o_now"], row["o_no"] or ()
    if nos:
        count = len(nos)
        tasks = list(
            map(
                Claimed,
                nos,
                row["o_id"],
                _each([names.kinds[route] for route in row["o_route"]], count),
                _each([names.lanes[lane] for lane in row["o_lane"]], count),
                _each(row["o_attempt"], count),
                _each(row["o_charged"], count),
                _each(row["o_max_charged"], count),
                _each([timeout / 1e6 for timeout in row["o_timeout"]], count),
                row["o_payload"],
                repeat(request.lease),
                _each(row["o_losses"], count),
                [max(0, now - run_at) / 1e6 for run_at in row["o_run_at"]],
                row["o_checkpoint"] or repeat(None),
            )
        )
        if row["o_origins"] is not None:
            tasks = _with_origins(tasks, row["o_origins"])
    ahead = frozenset(nos[-row["o_ahead"] :]) if row["o_ahead"] else frozenset()
    return Claim(tasks, ahead, more=bool(row["o_more"]), refused=row["o_refused"])


def _each(values: list[T], count: int) -> Iterable[T]:
    """The other way round than `_shortened`."""
    return values if len(values) == count else repeat(values[0], count)


def _with_origins(tasks: list[Claimed], text: str) -> list[Claimed]:
    origins = _origins(text)
    replace = msgspec.structs.replace
    return [replace(t, origin=origins[t.no]) if t.no in origins else t for t in tasks]
