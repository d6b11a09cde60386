"""How much faster one side is than another, from runs in turns on a noisy machine.

Each round gives one ratio of two runs that stood side by side. Their median is the figure; its
lower bound is an order statistic, which assumes nothing about the noise: if the true median were
below the k-th smallest of n ratios, at most k - 1 of them would lie below it, which has the
probability P(Binomial(n, 1/2) < k). The bound is the k-th smallest ratio for the largest k where
that is at most 10 %: the third smallest of ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median

import msgspec

CONFIDENCE = 0.9


class Ratio(msgspec.Struct, frozen=True):
    median: float
    lower: float | None  # None: too few rounds to say
    rounds: int

    def __str__(self) -> str:
        low = "?" if self.lower is None else f"{self.lower:.3g}"
        return f"{self.median:.3g} (≥ {low})"


def ratio_of(
    ours: Sequence[float | None], theirs: Sequence[float | None], *, less_is_better: bool = False
) -> Ratio | None:
    """How many times as good ours is; a round that lacks one of the two does not count."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a and b]
    if not pairs:
        return None
    ratios = [b / a if less_is_better else a / b for a, b in pairs]
    return Ratio(median(ratios), lower_bound(ratios), len(ratios))


def lower_bound(values: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Below which the median lies with at most 10 % probability."""
    rank = bound_rank(len(values), confidence)
    return sorted(values)[rank - 1] if rank else None


def bound_rank(count: int, confidence: float = CONFIDENCE) -> int:
    """Which of so many values, from below, is the bound; 0 if they are too few for one."""
    rank, below = 0, 0.0
    while rank < count:
        below += comb(count, rank) / 2**count
        if below > 1 - confidence:
            break
        rank += 1
    return rank
