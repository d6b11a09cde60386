"""What the dashboard asks with a million tasks: pages of tasks by state and one other filter, and
the figures of its overview.

Each question is asked on the first page, from the middle of all tasks on, and among the oldest.
Some filters match many tasks, some few, some none. An answer may be a short page that says where to
go on; how many it takes until the page is full, or until there is nothing more to find, and how
long that is, is shown beside.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from bench.figure import Figure, Stage, median, percentile
from bench.ground import ground
from bench.mix import MONTH, fill
from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.state import State
from taskyard.domain.statistics import HOUR
from taskyard.domain.task import TaskQuery
from taskyard.store.port import Store
from taskyard.store.url import open_store

SPEC = ("lifecycle-7",)
BOUND = (
    "With a million tasks, a question for a page of them by a state and one other filter, any "
    "page, is answered in under 300 ms (p95); so is what the overview asks."
)

MOST = 300.0  # ms
ROUNDS = 20
LIMIT = 50
LARGE = 500

Filters = dict[str, list[dict[str, object]]]


class Asked(msgspec.Struct):
    """One question, how long its answers took, and all of them until the page was full."""

    name: str
    times: list[float] = []  # ms
    whole: list[float] = []
    steps: int = 1

    @property
    def p95(self) -> float:
        return percentile(self.times, 95)


async def measure(stage: Stage) -> list[Figure]:
    options = stage.options
    with ground(options.store, stage.folder) as url_of:
        store = open_store(url_of("dashboard"))
        await store.open()
        try:
            first = await fill(stage, store, options.listed)
            figures = [
                *await lists(stage, store, first, options.listed),
                *await overview(stage, store),
            ]
        finally:
            await store.close()
    return figures


# --- lists ---


def filters(first: Instant) -> Filters:
    day = 24 * HOUR
    last = first + MONTH
    return {
        "alone": [{}],
        "and a kind": [
            {"kind": kind} for kind in ("download", "associate", "thumbnail", "convert", "nothing")
        ],
        "and a lane": [{"lane": lane} for lane in ("default", "bulk", "urgent", "nowhere")],
        "and a key": [{"key": key} for key in ("sub:7", "disk", "nobody's")],
        "and a time": [
            {"since": last - HOUR},
            {"until": last - day},
            {"since": first + 10 * day, "until": first + 11 * day},
            {"since": last + day},
            {"until": first},
        ],
    }


async def lists(stage: Stage, store: Store, first: Instant, count: int) -> list[Figure]:
    places = {"first": None, "middle": count // 2, "oldest": count // 20}
    states: list[State | None] = [None, *State]
    figures: list[Figure] = []
    for name, choices in filters(first).items():
        asked: list[Asked] = []
        with stage.steps(f"a state {name}", len(states) * len(choices) * len(places)) as advance:
            for state in states:
                for choice in choices:
                    for place, after in places.items():
                        query = TaskQuery(state=state, after=after, limit=LIMIT, **choice)  # type: ignore[arg-type]
                        asked.append(await ask(store, query, place))
                        advance(1)
        figures += list(_figures(f"a state {name}", asked))
    large = [await ask(store, TaskQuery(state=state, limit=LARGE), "first") for state in State]
    return [*figures, *_figures(f"a page of {LARGE}", large)]


async def ask(store: Store, query: TaskQuery, place: str) -> Asked:
    shown = {
        name: value
        for name, value in msgspec.structs.asdict(query).items()
        if value is not None and name not in ("limit", "after")
    }
    asked = Asked(f"{', '.join(map(str, shown.values())) or 'all'} ({place})")
    for _ in range(ROUNDS):
        times = await until_full(store, query)
        asked.times += times
        asked.whole.append(sum(times))
        asked.steps = max(asked.steps, len(times))
    return asked


async def until_full(store: Store, query: TaskQuery) -> list[float]:
    """Ask on until the page is full, as one who pages through would; ms of each answer."""
    times: list[float] = []
    while True:
        begun = time.perf_counter()
        page = await store.page(query)
        times.append(1e3 * (time.perf_counter() - begun))
        left = query.limit - len(page.tasks)
        if not left or page.next is None:
            return times
        query = msgspec.structs.replace(query, after=page.next, limit=left)


def _figures(name: str, asked: list[Asked]) -> Iterator[Figure]:
    worst = max(asked, key=lambda one: one.p95)
    yield Figure(
        name=f"{name}, slowest p95",
        value=worst.p95,
        unit="ms",
        at_most=MOST,
        detail=f"{worst.name}; {len(asked)} questions, median {_typical(asked):.1f} ms",
    )
    longest = max(asked, key=lambda one: percentile(one.whole, 95))
    if longest.steps > 1:
        yield Figure(
            name="   until the page is full, slowest p95",
            value=percentile(longest.whole, 95),
            unit="ms",
            detail=f"{longest.name}, {longest.steps} answers",
        )


def _typical(asked: list[Asked]) -> float:
    return median([median(one.times) for one in asked])


# --- the overview ---


async def overview(stage: Stage, store: Store) -> list[Figure]:
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "counts": store.counts,
        "lanes": store.lanes,
        "keys": store.keys,
        "nodes": store.nodes,
        "audit": store.audit,
        "figures of a day": lambda: _day(store),
    }
    figures: list[Figure] = []
    with stage.steps("the overview", len(questions)) as advance:
        for name, question in questions.items():
            asked = Asked(name)
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                await question()
                asked.times.append(1e3 * (time.perf_counter() - begun))
            figures.append(
                Figure(
                    name=f"{name}, p95",
                    value=asked.p95,
                    unit="ms",
                    at_most=MOST,
                    detail=f"median {median(asked.times):.1f} ms",
                )
            )
            advance(1)
    return figures


async def _day(store: Store) -> object:
    return await store.tallied(await store.now() - 86_400 * SECOND)
