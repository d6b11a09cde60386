"""How kinds and lanes fare, and how many workers a lane could use."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Annotated

import msgspec
from litestar import Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation

from taskyard.domain.lane import Lane
from taskyard.domain.statistics import KindStatistics, Times
from taskyard.server.asks import Filter, TheYard, viewer
from taskyard.server.oldest import Oldest
from taskyard.server.sampler import Sample, Sampler

TheSampler = SkipValidation[NamedDependency[Sampler]]
TheOldest = SkipValidation[NamedDependency[Oldest]]


class KindStats(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    count: int  # attempts
    ended: dict[str, int]
    success: float | None  # the share of tasks that ended well
    run: Times
    wait: Times


class LaneStats(msgspec.Struct, frozen=True, kw_only=True):
    lane: str
    queued: int
    pending: int
    running: int
    capacity: int | None
    oldest_age: float | None  # seconds since the oldest queued task was due; null: none waits


class Stats(msgspec.Struct, frozen=True):
    kinds: list[KindStats]
    lanes: list[LaneStats]


class Series(msgspec.Struct, frozen=True):
    every: float  # seconds
    points: list[Sample]


class LaneScale(msgspec.Struct, frozen=True, kw_only=True):
    lane: str
    waiting: int
    running: int
    capacity: int | None
    wanted: int  # slots that could be busy now: what runs and what waits, within the capacity


class Autoscale(msgspec.Struct, frozen=True):
    items: list[LaneScale]
    wanted: int  # in all


Hours = Annotated[float, QueryParameter(gt=0, le=24 * 90)]
Minutes = Annotated[float, QueryParameter(gt=0, le=60)]


@get("/stats", opt=viewer, summary="How kinds and lanes fare")
async def get_stats(yard: TheYard, oldest: TheOldest, hours: Hours = 24.0) -> Stats:
    """Of kinds: the last hours, to the hour. Of lanes: now."""
    kinds = await yard.statistics(since=timedelta(hours=hours))
    lanes = await yard.lanes()
    ages = await oldest.ages(lanes)
    return Stats([_kind(one) for one in kinds], [_lane(one, ages.get(one.name)) for one in lanes])


@get("/stats/series", opt=viewer, summary="Points for charts")
async def get_series(sampler: TheSampler, minutes: Minutes = 60.0) -> Series:
    """Kept by this server since it began, an hour at most."""
    count = max(1, math.ceil(minutes * 60 / sampler.every))
    return Series(sampler.every, list(sampler.samples)[-count:])


@get("/autoscale", opt=viewer, summary="How many slots could be busy")
async def get_autoscale(yard: TheYard, lane: Filter = None) -> Autoscale:
    """For KEDA's metrics-api scaler and the like: `wanted` of everything, or of one `lane`."""
    found = [_scale(one) for one in await yard.lanes() if lane in (None, one.name)]
    return Autoscale(found, sum(one.wanted for one in found))


def _kind(one: KindStatistics) -> KindStats:
    return KindStats(
        kind=one.kind,
        count=one.attempts,
        ended=one.ended,
        success=one.success,
        run=one.run,
        wait=one.wait,
    )


def _lane(lane: Lane, age: float | None) -> LaneStats:
    return LaneStats(
        lane=lane.name,
        queued=lane.queued,
        pending=lane.pending,
        running=lane.running,
        capacity=lane.capacity,
        oldest_age=age,
    )


def _scale(lane: Lane) -> LaneScale:
    busy = lane.running if lane.paused else lane.running + lane.queued
    within = busy if lane.capacity is None else min(busy, max(lane.capacity, lane.running))
    return LaneScale(
        lane=lane.name,
        waiting=lane.queued,
        running=lane.running,
        capacity=lane.capacity,
        wanted=within,
    )


routes = Router("/", route_handlers=[get_stats, get_series, get_autoscale], tags=["statistics"])
