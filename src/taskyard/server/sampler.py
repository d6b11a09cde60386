"""Looks at the yard every two seconds, for charts and for those who watch.

It asks only what is cheap with a million tasks: the figures of lanes, and what workers have added
up since the last look.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.errors import StoreError
from taskyard.domain.lane import Lane
from taskyard.domain.statistics import RUN, RUN_SUM, WAIT, WAIT_SUM, Count, Times, by_kind
from taskyard.engine.log import logger
from taskyard.engine.redact import without_logins
from taskyard.server.feed import Feed
from taskyard.server.lately import Lately
from taskyard.server.totals import CountKey, Totals
from taskyard.server.words import Moment, iso
from taskyard.store.port import Hint, Store

KEPT_SECONDS = 3600
AT_MOST = 0.2  # seconds between two events about tasks
MOST_LANES = 50  # in one sample, the fullest

log = logger("server")

T = TypeVar("T")

TIMES = frozenset({RUN, WAIT, RUN_SUM, WAIT_SUM})


class Depth(msgspec.Struct, frozen=True):
    queued: int
    pending: int
    running: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    at: Moment
    queued: int
    pending: int
    running: int
    finished_per_second: float  # attempts that ended, in any way
    completed_per_second: float
    failed_per_second: float
    retried_per_second: float
    run: Times
    wait: Times
    lanes: dict[str, Depth]


class Sampler:
    def __init__(
        self,
        store: Store,
        totals: Totals,
        feed: Feed,
        every: float,
        measured: Callable[[str, float], None] = lambda _verb, _seconds: None,
    ) -> None:
        self._store = store
        self._totals = totals
        self._feed = feed
        self.every = every
        self._measured = measured  # hears how long each question to the store took
        self.samples: deque[Sample] = deque(maxlen=max(1, int(KEPT_SECONDS / every)))
        self._seen: Counter[CountKey] | None = None
        self._lately = Lately()
        self._lanes: Mapping[str, Lane] = {}
        self._nodes: object = None
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        if not self._tasks:
            self._stop_listening = self._store.listen(self._hear)
            self._tasks = [
                asyncio.create_task(self._sample_on(), name="taskyard-sampler"),
                asyncio.create_task(self._tell_on(), name="taskyard-teller"),
            ]

    async def stop(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    # --- events ---

    def _hear(self, _hint: Hint) -> None:
        self._changed.set()

    async def _tell_on(self) -> None:
        """Something has changed: which tasks, the store does not say."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._feed.publish("tasks", {"ids": [], "more": True})
            await asyncio.sleep(AT_MOST)

    async def _sample_on(self) -> None:
        while True:
            try:
                await self.sample()
            except StoreError as error:
                log.warning("sample", error=without_logins(str(error)))
            except Exception:
                log.exception("sample")
            await asyncio.sleep(self.every)

    # --- looking ---

    async def sample(self) -> Sample:
        now = await self._timed("now", self._store.now())
        lanes = await self._timed("lanes", self._store.lanes())
        nodes = await self._timed("nodes", self._store.nodes())
        await self._look_what_ended(now)
        sample = _sample(now, lanes, self._lately.counts(), self._lately.rates(time.monotonic()))
        self.samples.append(sample)
        self._feed.publish("stats", sample)
        self._tell_of_lanes({lane.name: lane for lane in lanes})
        said = [(node.id, node.state, node.running, node.slots) for node in nodes]
        if self._nodes is not None and said != self._nodes:
            self._feed.publish("nodes", {"ids": [node.id for node in nodes]})
        self._nodes = said
        return sample

    def _tell_of_lanes(self, lanes: dict[str, Lane]) -> None:
        changed = [name for name, lane in lanes.items() if self._lanes.get(name) != lane]
        if changed and self._lanes:
            self._feed.publish("lanes", {"names": changed})
            self._changed.set()
        self._lanes = lanes

    async def _look_what_ended(self, now: Instant) -> None:
        found = await self._timed("tallied", self._totals.look(now))
        if self._seen is not None:
            self._lately.add(time.monotonic(), found - self._seen)
        self._seen = found

    async def _timed(self, verb: str, question: Awaitable[T]) -> T:
        begun = time.perf_counter()
        try:
            return await question
        finally:
            self._measured(verb, time.perf_counter() - begun)


def _sample(
    now: Instant, lanes: list[Lane], counts: list[Count], rates: Mapping[str, float]
) -> Sample:
    everything = [msgspec.structs.replace(count, kind="") for count in counts]
    figures = next(iter(by_kind(everything)), None)
    fullest = sorted(lanes, key=lambda lane: -(lane.queued + lane.pending + lane.running))
    return Sample(
        at=iso(now),
        queued=sum(lane.queued for lane in lanes),
        pending=sum(lane.pending for lane in lanes),
        running=sum(lane.running for lane in lanes),
        finished_per_second=sum(rate for what, rate in rates.items() if what not in TIMES),
        completed_per_second=rates.get("completed", 0.0),
        failed_per_second=rates.get("failed", 0.0),
        retried_per_second=rates.get("retried", 0.0),
        run=Times() if figures is None else figures.run,
        wait=Times() if figures is None else figures.wait,
        lanes={
            lane.name: Depth(lane.queued, lane.pending, lane.running)
            for lane in fullest[:MOST_LANES]
        },
    )
