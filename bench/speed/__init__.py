"""Taskyard beside the queues a Python user could pick instead, and beside the bare store.

Every side runs in a process of its own, on an empty store, in turns with all others; what counts
are the ratios of one round's runs to each other, over all rounds (`ratio`). `sides` says who takes
part, `places` where they run, `rounds` runs them, `targets` judges, `report` and `plot` tell.
"""

from __future__ import annotations

from bench.figure import Figure, Stage
from bench.speed.comparison import compare

SPEC = ("engine-28", "engine-29")
BOUND = (
    "Faster than every peer on the same store in the same run, by the factors below, and not far "
    "from what the bare store gives for the same contract."
)

__all__ = ["BOUND", "SPEC", "measure"]


async def measure(stage: Stage) -> list[Figure]:
    return await compare(stage)
