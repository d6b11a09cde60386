"""What workers have added up in the last seconds, and how fast that is.

Each worker tells it every ten seconds. A plain window would hold now two, now three of those. So a
rate gives them a weight that rises for ten seconds and falls for ten: a worker that is steady gives
a steady rate, whenever it tells and however many others there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping

from taskyard.domain.statistics import Count
from taskyard.engine.tally import EVERY
from taskyard.server.totals import CountKey, counts_of

WINDOW = 2 * EVERY  # seconds


class Lately:
    def __init__(self) -> None:
        self._told: deque[tuple[float, Mapping[CountKey, int]]] = deque()

    def add(self, at: float, added: Mapping[CountKey, int]) -> None:
        """What was told at this moment, of a clock that only goes on."""
        self._told.append((at, added))
        while at - self._told[0][0] >= WINDOW:
            self._told.popleft()

    def counts(self) -> list[Count]:
        """All of it."""
        sums: Counter[CountKey] = Counter()
        for _, added in self._told:
            sums.update(added)
        return counts_of(sums)

    def rates(self, now: float) -> dict[str, float]:
        """How many of each `what` a second."""
        found: defaultdict[str, float] = defaultdict(float)
        for at, added in self._told:
            weight = max(0.0, EVERY - abs(now - at - EVERY)) / EVERY**2
            for (_, _, what, _), n in added.items():
                found[what] += n * weight
        return found
