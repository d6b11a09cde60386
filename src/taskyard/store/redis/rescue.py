"""Takes back what dead nodes ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.node import Lease
from taskyard.domain.outcome import POISON_LOSSES, LostRun, decide_lost
from taskyard.store.port import Rescued
from taskyard.store.redis.rows import given


class _Run(msgspec.Struct, array_like=True, frozen=True):
    """From what lua/rescue.lua packs: a run as it was when its node was found dead."""

    no: int
    id: str
    attempt: int
    charged: int
    max_charged: int
    losses: int
    started: bool
    asked: Any


_runs = msgspec.msgpack.Decoder(list[_Run]).decode

[_FIRST_LOSS] = decide_lost(
    [LostRun(no=0, id="", attempt=1, charged=0, max_charged=1, losses=0, started=True)]
)


def arguments(dead: Sequence[Lease], ended: bool) -> tuple[object, ...]:
    return list(dead), ended, POISON_LOSSES, _FIRST_LOSS.error


def answer(found: Sequence[Any]) -> list[Rescued]:
    """The script decides as `decide_lost` does; tests compare the two."""
    return [
        Rescued(node.decode(), lease, decide_lost([_lost_run(run) for run in _runs(packed)]))
        for node, lease, packed in found
    ]


def _lost_run(run: _Run) -> LostRun:
    return LostRun(
        no=run.no,
        id=run.id,
        attempt=run.attempt,
        charged=run.charged,
        max_charged=run.max_charged,
        losses=run.losses,
        started=run.started,
        asked=given(run.asked),
    )
