"""What must hold, store by store, and whether it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from bench.figure import Figure
from bench.speed.ratio import Ratio
from bench.speed.results import SideResult, StoreResult
from bench.speed.sides import NAMES, Measure


class To(StrEnum):
    """What a figure of ours is compared to."""

    PEERS = "the best peer"
    LIMIT = "the bare store"
    PLAIN = "plain tasks"


class Target(msgspec.Struct, frozen=True):
    measure: Measure
    to: To
    least: Mapping[str, float]  # by store; where none is named it is reported only
    typical: Mapping[str, float] = {}  # by store; of the median, beside `least` of its lower bound
    beside: Mapping[str, str] = {}  # by store; these peers alone, by the beginning of their names


TARGETS = (
    Target(
        Measure.PROCESS,
        To.PEERS,
        {"postgres": 2.2, "redis": 15, "sqlite": 12},
        typical={"postgres": 3},
    ),
    Target(Measure.PROCESS, To.LIMIT, {"postgres": 0.5, "redis": 0.35, "sqlite": 0.45}),
    Target(Measure.PROCESS_BY_TWO, To.PEERS, {}),
    Target(Measure.ONE, To.PEERS, {}),
    Target(Measure.ONE, To.LIMIT, {"postgres": 0.7, "redis": 0.6, "sqlite": 0.7}),
    Target(Measure.AT_ONCE, To.PEERS, {"postgres": 10, "redis": 4, "sqlite": 5}),
    Target(Measure.AT_ONCE, To.LIMIT, {}),
    Target(Measure.BULK, To.PEERS, {"postgres": 1.8, "redis": 5}),
    Target(Measure.BULK, To.LIMIT, {"sqlite": 0.4}),
    # huey on Redis takes a task out with the blocking pop that waits for it: nothing is left to
    # claim, and a kill loses it.
    Target(
        Measure.IDLE,
        To.PEERS,
        {"postgres": 1, "redis": 1, "sqlite": 1},
        beside={"redis": "taskiq"},
    ),
    Target(Measure.IDLE, To.LIMIT, {}),
    Target(Measure.KEYED, To.PLAIN, {"postgres": 0.35, "redis": 0.45, "sqlite": 0.45}),
    Target(Measure.LANE, To.PLAIN, {"postgres": 0.55, "redis": 0.55, "sqlite": 0.55}),
    Target(Measure.LANE, To.LIMIT, {}),
)
MOST_MS_HERE = 2.0
MOST_MB = 80.0


def figures(result: StoreResult) -> list[Figure]:
    """A line for each target; a ratio is judged by its lower bound."""
    found = [figure for target in TARGETS for figure in judged(result, target)]
    found += bare_lane(result)
    here = result.own.typical(Measure.IDLE_HERE)
    if here is not None:
        name = f"{NAMES[Measure.IDLE_HERE]}, p50"
        found.append(Figure(name=name, value=here, unit="ms", at_most=MOST_MS_HERE))
    memory = result.own.typical(Measure.PROCESS, "rss_mb")
    if memory is not None:
        found.append(
            Figure(name="peak memory of a worker", value=memory, unit="MB", at_most=MOST_MB)
        )
    return found


def bare_lane(result: StoreResult) -> Iterator[Figure]:
    """What is left of the bare store's own speed where a hundred run and then a hundred more."""
    ratio = result.limit and result.limit.share(Measure.LANE, Measure.PROCESS)
    if ratio:
        yield Figure(
            name="the bare store, 100 tasks after 100: to itself",
            value=ratio.median,
            unit="of it",
            detail=f"median of {ratio.rounds} rounds",
        )


def judged(result: StoreResult, target: Target) -> Iterator[Figure]:
    compared = ratio_to(result, target)
    if compared is None:
        return
    ratio, name = compared
    least = target.least.get(result.store)
    unit = "x" if target.to is To.PEERS else "of it"
    lowest = ratio.median if ratio.lower is None else ratio.lower
    yield Figure(
        name=f"{NAMES[target.measure]}: to {target.beside.get(result.store, target.to)}",
        value=lowest,
        unit=unit,
        at_least=None if ratio.lower is None else least,
        detail=f"median {ratio.median:.3g} of {ratio.rounds} rounds{name}"
        + ("" if ratio.lower is not None else "; too few to judge"),
    )
    if ratio.lower is not None and result.store in target.typical:
        yield Figure(
            name=f"{NAMES[target.measure]}: to {target.to}, median",
            value=ratio.median,
            unit=unit,
            at_least=target.typical[result.store],
        )


def ratio_to(result: StoreResult, target: Target) -> tuple[Ratio, str] | None:
    """The ratio, and to whom; to the peers it is the one that comes off worst for us."""
    match target.to:
        case To.PEERS:
            best = best_peer(result, target.measure, target.beside.get(result.store, ""))
            return None if best is None else (best[1], f"; {told(result, best[0], target.measure)}")
        case To.LIMIT:
            if result.limit is None:
                return None
            ratio = result.against(result.limit, target.measure)
            beside = f"; {told(result, result.limit, target.measure)}" if ratio else ""
        case To.PLAIN:
            ratio, beside = result.own.share(target.measure, Measure.PROCESS), ""
    return None if ratio is None else (ratio, beside)


def best_peer(
    result: StoreResult, measure: Measure, begins: str = ""
) -> tuple[SideResult, Ratio] | None:
    """The peer to which our ratio has the lowest bound."""
    peers = [peer for peer in result.peers if peer.name.startswith(begins)]
    ratios = [(peer, result.against(peer, measure)) for peer in peers]
    there = [(peer, ratio) for peer, ratio in ratios if ratio is not None]
    return min(
        there, key=lambda one: one[1].median if one[1].lower is None else one[1].lower, default=None
    )


def told(result: StoreResult, other: SideResult, measure: Measure) -> str:
    way = other.way(measure)
    assert way is not None
    ours, theirs = result.own.typical(measure), other.typical(way)
    if ours is None or theirs is None:
        return other.name
    unit = " ms" if measure.is_idle else "/s"
    shown = (
        (f"{ours:.2f}", f"{theirs:.2f}") if measure.is_idle else (f"{ours:,.0f}", f"{theirs:,.0f}")
    )
    aside = "" if way is measure else f", {NAMES[way]}"
    return f"{shown[0]}{unit} to {shown[1]}{unit} of {other.name}{aside}"
