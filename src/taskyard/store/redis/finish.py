"""Ends attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.state import Reason, State, require
from taskyard.store.redis.rows import or_false

_answers = msgspec.msgpack.Decoder(list[bool | State]).decode


def rows(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """As lua/parts/ending.lua takes them: most are simply completed, and their figures go in lists,
    which take less time to read."""
    lease = verdicts[0].lease if verdicts else 0
    completed, finished = State.COMPLETED, Reason.FINISHED
    others = {
        at: verdict
        for at, verdict in enumerate(verdicts, 1)
        if verdict.state is not completed
        or verdict.reason is not finished
        or verdict.lease != lease
        or verdict.error is not None
        or verdict.losses
    }
    results = [verdict.result for verdict in verdicts]
    has_results = results.count(None) < len(results)
    nos = [verdict.no for verdict in verdicts]
    if len(set(nos)) < len(nos):  # of two on one task the first counts, whichever way they end it
        times = Counter(nos)
        others |= {at: one for at, one in enumerate(verdicts, 1) if times[one.no] > 1}
    for verdict in others.values():
        require_allowed(verdict)
    return {
        "nos": [f"{no:014x}" for no in nos],
        "attempts": [verdict.attempt for verdict in verdicts],
        "results": list(map(or_false, results)) if has_results else False,
        "others": others,
        "lease": lease,
    }


def require_allowed(verdict: Verdict) -> None:
    """One that is completed always is."""
    require(verdict.id, State.RUNNING, verdict.state, verdict.reason)


def answers(verdicts: Sequence[Verdict], answer: bytes) -> list[Finished | Stale]:
    """From true for each that was applied as it is, another state, or false for a stale one; from
    nothing if all were applied as they are."""
    if not answer:
        return [Finished(verdict.no, verdict.state) for verdict in verdicts]
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
