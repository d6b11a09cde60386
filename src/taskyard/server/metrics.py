"""Figures for Prometheus: by lane and kind, never by task.

What is of the yard as a whole comes from the store, so every server of a yard shows the same:
take the maximum over instances, not the sum. What is of this process says so in its name.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import psutil
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from taskyard.domain.lane import Lane
from taskyard.domain.node import Node
from taskyard.domain.statistics import RUN, RUN_SUM, WAIT, WAIT_SUM, Count, time_of
from taskyard.server.asks import viewer
from taskyard.server.oldest import Oldest
from taskyard.server.totals import Totals, counts_of
from taskyard.store.port import Store

MEDIA_TYPE = "text/plain; version=0.0.4"  # the framework adds the charset
BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 1800.0, 7200.0,
)  # fmt: skip
LAG_EVERY = 0.5  # seconds
RESCUE = "rescue"
PIECE = 500  # lines of the audit trail read at once


class Metrics:
    """Its own registry: what else a process measures is its own business."""

    def __init__(self, store: Store, totals: Totals, oldest: Oldest) -> None:
        self._store = store
        self._totals = totals
        self._oldest = oldest
        self._registry = CollectorRegistry()
        self._yard = _Yard()
        self._registry.register(self._yard)
        self._calls = Histogram(
            "taskyard_process_store_call_seconds",
            "How long the server's own questions to the store took.",
            ["verb"],
            registry=self._registry,
        )
        self._lag = Histogram(
            "taskyard_process_event_loop_lag_seconds",
            "How late the event loop of this process was.",
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
            registry=self._registry,
        )
        self._memory = Gauge(
            "taskyard_process_memory_bytes", "Resident memory.", registry=self._registry
        )
        self._cpu = Gauge(
            "taskyard_process_cpu_seconds", "CPU time so far.", registry=self._registry
        )
        self._process = psutil.Process()
        self._audited: int | None = None
        self._counting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def watch(self, stalls: Callable[[], int]) -> None:
        """From where to know how often the worker of this process had to be woken up."""
        self._yard.stalls = stalls

    def measured(self, verb: str, seconds: float) -> None:
        self._calls.labels(verb).observe(seconds)

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._watch_loop(), name="taskyard-lag")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch_loop(self) -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(LAG_EVERY)
            self._lag.observe(max(0.0, time.perf_counter() - begun - LAG_EVERY))

    async def text(self) -> bytes:
        yard = self._yard
        yard.lanes = await self._store.lanes()
        yard.nodes = await self._store.nodes()
        yard.counts = counts_of(await self._totals.look(await self._store.now()))
        yard.ages = await self._oldest.ages(yard.lanes)
        yard.paused = await self._store.yard_paused() is not None
        await self._count_rescues()
        with self._process.oneshot():
            times = self._process.cpu_times()
            self._cpu.set(times.user + times.system)
            self._memory.set(self._process.memory_info().rss)
        return generate_latest(self._registry)

    async def _count_rescues(self) -> None:
        """Leases that others had to end since the last look, from the audit trail."""
        async with self._counting:
            lines = await self._store.audit(limit=1)
            newest = lines[0].no if lines else 0
            if self._audited is not None:
                rescues = await self._rescues_between(self._audited, newest)
                self._yard.lost += rescues
            self._audited = newest

    async def _rescues_between(self, last: int, newest: int) -> int:
        found, before = 0, newest + 1
        while before > last + 1:
            lines = await self._store.audit(limit=PIECE, before=before)
            found += sum(line.action == RESCUE for line in lines if line.no > last)
            before = lines[-1].no if lines else 0
        return found


class _Yard(Collector):
    """The yard as it was just now."""

    def __init__(self) -> None:
        self.lanes: Sequence[Lane] = ()
        self.nodes: Sequence[Node] = ()
        self.counts: Sequence[Count] = ()
        self.ages: dict[str, float] = {}
        self.paused = False
        self.lost = 0
        self.stalls: Callable[[], int] = lambda: 0

    def collect(self) -> Iterator[Metric]:
        yield from self._of_lanes()
        yield from self._of_attempts()
        yield from self._of_nodes()

    def _of_lanes(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "taskyard_lane_tasks", "Tasks of a lane by state.", labels=["lane", "state"]
        )
        capacity = GaugeMetricFamily(
            "taskyard_lane_capacity", "Most that may run at once.", labels=["lane"]
        )
        paused = GaugeMetricFamily(
            "taskyard_lane_paused", "Whether the lane starts nothing.", labels=["lane"]
        )
        oldest = GaugeMetricFamily(
            "taskyard_lane_oldest_seconds",
            "How long the oldest queued task has been due.",
            labels=["lane"],
        )
        for lane in self.lanes:
            for state in ("queued", "pending", "running"):
                depth.add_metric([lane.name, state], getattr(lane, state))
            if lane.capacity is not None:
                capacity.add_metric([lane.name], lane.capacity)
            paused.add_metric([lane.name], lane.paused or self.paused)
            oldest.add_metric([lane.name], self.ages.get(lane.name, 0.0))
        yield from (depth, capacity, paused, oldest)

    def _of_attempts(self) -> Iterator[Metric]:
        claims = CounterMetricFamily(
            "taskyard_claims", "Attempts that began and have ended.", labels=["lane", "kind"]
        )
        ends = CounterMetricFamily(
            "taskyard_finishes", "Attempts that ended.", labels=["lane", "kind", "outcome"]
        )
        ran = HistogramMetricFamily(
            "taskyard_run_seconds", "How long attempts ran.", labels=["lane", "kind"]
        )
        waited = HistogramMetricFamily(
            "taskyard_wait_seconds", "How long they had waited.", labels=["lane", "kind"]
        )
        for (lane, kind), whats in sorted(_grouped(self.counts).items()):
            for what, buckets in sorted(whats.items()):
                if what in (RUN, WAIT, RUN_SUM, WAIT_SUM):
                    continue
                ends.add_metric([lane, kind, what], sum(buckets.values()))
            claims.add_metric([lane, kind], sum(whats.get(WAIT, {}).values()))
            for family, what, total in ((ran, RUN, RUN_SUM), (waited, WAIT, WAIT_SUM)):
                family.add_metric(
                    [lane, kind],
                    _cumulated(whats.get(what, {})),
                    sum(whats.get(total, {}).values()) / 1_000_000,
                )
        yield from (claims, ends, ran, waited)

    def _of_nodes(self) -> Iterator[Metric]:
        count: defaultdict[str, int] = defaultdict(int)
        for node in self.nodes:
            count[node.state] += 1
        nodes = GaugeMetricFamily("taskyard_nodes", "Workers by state.", labels=["state"])
        for state, number in sorted(count.items()):
            nodes.add_metric([state], number)
        used = [node.usage for node in self.nodes if node.usage is not None]
        yield nodes
        yield GaugeMetricFamily(
            "taskyard_slots",
            "What all workers can run.",
            sum(node.slots for node in self.nodes if node.kinds),  # a server alone serves none
        )
        yield GaugeMetricFamily(
            "taskyard_slots_used", "What they run.", sum(node.running for node in self.nodes)
        )
        yield GaugeMetricFamily(
            "taskyard_nodes_cpu_cores", "What they use.", sum(usage.cpu for usage in used)
        )
        yield GaugeMetricFamily(
            "taskyard_nodes_memory_bytes", "What they use.", sum(usage.memory for usage in used)
        )
        yield CounterMetricFamily(
            "taskyard_process_claim_stalls",
            "How often the watchdog began the claim loop of this process anew.",
            self.stalls(),
        )
        yield CounterMetricFamily(
            "taskyard_leases_lost", "Workers that others had to declare dead.", self.lost
        )


Grouped = dict[tuple[str, str], dict[str, dict[int, int]]]


def _grouped(counts: Iterable[Count]) -> Grouped:
    found: Grouped = {}
    for count in counts:
        buckets = found.setdefault((count.lane, count.kind), {}).setdefault(count.what, {})
        buckets[count.bucket] = buckets.get(count.bucket, 0) + count.n
    return found


def _cumulated(buckets: dict[int, int]) -> list[tuple[str, float]]:
    """Our classes, a fifth apart, in the coarser ones of a histogram."""
    per_bound = [0] * (len(BOUNDS) + 1)
    for bucket, n in buckets.items():
        per_bound[bisect.bisect_left(BOUNDS, time_of(bucket))] += n
    found: list[tuple[str, float]] = []
    total = 0
    for bound, n in zip((*map(str, BOUNDS), "+Inf"), per_bound, strict=True):
        total += n
        found.append((bound, total))
    return found


TheMetrics = SkipValidation[NamedDependency[Metrics]]


@get("/metrics", opt=viewer, media_type="text/plain", tags=["metrics"], summary="For Prometheus")
async def metrics_page(metrics: TheMetrics) -> Response[bytes]:
    return Response(await metrics.text(), media_type=MEDIA_TYPE)
