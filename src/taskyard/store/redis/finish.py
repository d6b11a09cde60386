"""Ends attempts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.state import State, require

_answers = msgspec.msgpack.Decoder(list[bool | State]).decode


def check(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        require(verdict.id, State.RUNNING, verdict.state, verdict.reason)


def answers(verdicts: Sequence[Verdict], answer: bytes) -> list[Finished | Stale]:
    """From true for each that was applied as it is, another state, or false for a stale one."""
    return [
        _answer(verdict, applied)
        for verdict, applied in zip(verdicts, _answers(answer), strict=True)
    ]


def _answer(verdict: Verdict, applied: bool | State) -> Finished | Stale:
    if applied is True:
        return Finished(verdict.no, verdict.state)
    if applied is False:
        return Stale(verdict.no, verdict.attempt)
    return Finished(verdict.no, applied)
