"""What was measured: bench/results/latest.json, one part for each store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from bench.speed.places import Asked
from bench.speed.ratio import Ratio, ratio_of
from bench.speed.sides import Measure, Role

RESULTS = Path(__file__).parent.parent / "results"
STORES = {"postgres": "PostgreSQL", "redis": "Redis", "sqlite": "SQLite"}

# A peer that cannot do it this way is taken by the next best one it can.
INSTEAD = {
    Measure.AT_ONCE: (Measure.AT_ONCE, Measure.ONE),
    Measure.BULK: (Measure.BULK, Measure.AT_ONCE, Measure.ONE),
}

LESS_IS_BETTER = frozenset({"p50_ms", "p99_ms", "rss_mb", "cpu_us"})


class Measured(msgspec.Struct, kw_only=True):
    """One side's runs of one measure, a round each; None where it did not answer."""

    started: str  # when the rounds began; only what ran in the same rounds is compared
    count: int
    answers: list[dict[str, float] | None]

    def values(self, figure: str) -> list[float | None]:
        return [answer.get(figure) if answer else None for answer in self.answers]


class SideResult(msgspec.Struct, kw_only=True):
    name: str
    role: Role
    settings: str
    loses: bool = False
    measured: dict[Measure, Measured] = {}
    asked: Asked | None = None
    failed: dict[Measure, str] = {}

    def values(self, measure: Measure, figure: str | None = None) -> list[float | None]:
        found = self.measured.get(measure)
        return found.values(figure or measure.figure) if found else []

    def typical(self, measure: Measure, figure: str | None = None) -> float | None:
        there = [value for value in self.values(measure, figure) if value is not None]
        return median(there) if there else None

    def share(self, measure: Measure, of: Measure) -> Ratio | None:
        """Of its own in one measure, of its own in another."""
        there = [self.measured.get(each) for each in (measure, of)]
        if None in there or len({each.started for each in there if each}) > 1:
            return None
        return ratio_of(self.values(measure), self.values(of))

    def way(self, measure: Measure) -> Measure | None:
        """How it does this, or what comes nearest to it."""
        ways = INSTEAD.get(measure, (measure,))
        return next((way for way in ways if way in self.measured), None)


class Machine(msgspec.Struct, kw_only=True):
    cores: int
    system: str
    python: str
    load: tuple[float, float, float]  # how much it had to do beside
    sync_ms: float  # what an fsync of its disk took, p50


class StoreResult(msgspec.Struct, kw_only=True):
    store: str
    version: str
    taskyard: str
    started: str
    rounds: int
    seconds: float  # that a run was to last
    machine: Machine
    sides: list[SideResult]

    @property
    def own(self) -> SideResult:
        return next(side for side in self.sides if side.role is Role.OWN)

    @property
    def peers(self) -> list[SideResult]:
        return [side for side in self.sides if side.role is Role.PEER]

    @property
    def limit(self) -> SideResult | None:
        return next((side for side in self.sides if side.role is Role.LIMIT), None)

    def against(
        self, other: SideResult, measure: Measure, figure: str | None = None
    ) -> Ratio | None:
        """How many times as good we are as another side, whichever way that one goes."""
        way = other.way(measure)
        if way is None or measure not in self.own.measured:
            return None
        if self.own.measured[measure].started != other.measured[way].started:
            return None
        figure = figure or measure.figure
        ours, theirs = self.own.values(measure, figure), other.values(way, figure)
        return ratio_of(ours, theirs, less_is_better=figure in LESS_IS_BETTER)

    def after(self, earlier: StoreResult) -> StoreResult:
        """With what an earlier run measured and this one did not."""
        done = {measure for side in self.sides for measure in (*side.measured, *side.failed)}
        sides = {side.name: side for side in self.sides}
        for old in earlier.sides:
            new = sides.get(old.name) or msgspec.structs.replace(
                old, measured={}, failed={}, asked=None
            )
            measured = {m: runs for m, runs in old.measured.items() if m not in done}
            failed = {m: why for m, why in old.failed.items() if m not in done}
            both = msgspec.structs.replace(
                new,
                measured=measured | new.measured,
                failed=failed | new.failed,
                asked=new.asked or (old.asked if Measure.PROCESS in measured else None),
            )
            if both.measured or both.failed:
                sides[old.name] = both
        ranks = list(Role)
        ordered = sorted(sides.values(), key=lambda side: ranks.index(side.role))
        return msgspec.structs.replace(self, sides=ordered)


class Latest(msgspec.Struct):
    stores: dict[str, StoreResult] = {}

    @property
    def in_order(self) -> Sequence[StoreResult]:
        return [self.stores[store] for store in STORES if store in self.stores]


def read_latest(folder: Path = RESULTS) -> Latest:
    """What there is; nothing if it has an earlier form."""
    path = folder / "latest.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Latest)
    except (FileNotFoundError, msgspec.ValidationError):
        return Latest()


def keep(result: StoreResult, folder: Path = RESULTS) -> Latest:
    """What was measured takes the place of what there was; other measures and stores stay."""
    latest = read_latest(folder)
    earlier = latest.stores.get(result.store)
    latest.stores[result.store] = result if earlier is None else result.after(earlier)
    folder.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(latest, order="deterministic"), indent=1)
    (folder / "latest.json").write_bytes(text + b"\n")
    return latest
