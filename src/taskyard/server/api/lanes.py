"""Lanes: how much may run in each, and what is paused."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from litestar import Router, get, patch, post, put
from litestar.params import JSONBody

from taskyard.domain.errors import NotFound
from taskyard.domain.lane import Lane, Order
from taskyard.domain.rate import Rate
from taskyard.server.asks import Actor, InPath, TheYard, operator, viewer
from taskyard.server.bodies import Strict
from taskyard.server.words import Moment, iso_or_none, name_in

Unset = msgspec.UnsetType
UNSET = msgspec.UNSET

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3_153_600_000)]


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: int | None  # null: no limit
    max_depth: int | None
    rate: Rate | None
    order: Order
    ageing: float | None
    paused: bool
    paused_reason: str | None
    paused_until: Moment | None
    running: int
    queued: int
    pending: int


class Lanes(msgspec.Struct, frozen=True):
    items: list[LaneView]


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is, null is no limit."""

    capacity: int | Unset | None = UNSET
    max_depth: int | Unset | None = UNSET
    rate: Rate | Unset | None = UNSET
    order: Order | Unset = UNSET
    ageing: float | Unset | None = UNSET


class PauseLane(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"for_": "for"}
):
    """It goes on by itself at `until`, or `for` so many seconds later; else when it is told to."""

    reason: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    until: datetime | None = None
    for_: Seconds | None = None


FOR_NOW = PauseLane()  # no body at all


@get("/", opt=viewer, summary="All lanes")
async def list_lanes(yard: TheYard) -> Lanes:
    return Lanes([view(lane) for lane in await yard.lanes()])


@get("/{lane:str}", opt=viewer, summary="One lane")
async def get_lane(yard: TheYard, lane: InPath) -> LaneView:
    name = name_in(lane)
    found = next((one for one in await yard.lanes() if one.name == name), None)
    if found is None:
        raise NotFound(f"there is no lane {name}")
    return view(found)


@patch(
    "/{lane:str}",
    opt=operator,
    dto=Strict[LaneSettings],
    return_dto=None,
    summary="Change a lane",
)
async def change_lane(
    yard: TheYard, actor: Actor, lane: InPath, data: JSONBody[LaneSettings]
) -> LaneView:
    """At once and for all workers. A new lane is made."""
    return await set_lane(yard, actor, name_in(lane), data)


@put(
    "/{lane:str}",
    opt=operator,
    dto=Strict[LaneSettings],
    return_dto=None,
    summary="Change a lane",
)
async def put_lane(
    yard: TheYard, actor: Actor, lane: InPath, data: JSONBody[LaneSettings]
) -> LaneView:
    """The same as PATCH: what is left out stays."""
    return await set_lane(yard, actor, name_in(lane), data)


@post(
    "/{lane:str}/pause",
    opt=operator,
    status_code=200,
    dto=Strict[PauseLane],
    return_dto=None,
    summary="Start nothing new in a lane",
)
async def pause_lane(
    yard: TheYard, actor: Actor, lane: InPath, data: JSONBody[PauseLane] = FOR_NOW
) -> LaneView:
    """What runs goes on, and tasks can still be created."""
    duration = None if data.for_ is None else timedelta(seconds=data.for_)
    paused = await yard.pause_lane(
        name_in(lane), until=data.until, for_=duration, reason=data.reason, actor=actor
    )
    return view(paused)


@post("/{lane:str}/resume", opt=operator, status_code=200, summary="Let a lane go on")
async def resume_lane(yard: TheYard, actor: Actor, lane: InPath) -> LaneView:
    return view(await yard.resume_lane(name_in(lane), actor=actor))


async def set_lane(yard: TheYard, actor: str, name: str, data: LaneSettings) -> LaneView:
    changed = await yard.set_lane(
        name,
        capacity=data.capacity,
        max_depth=data.max_depth,
        rate=data.rate,
        order=data.order,
        ageing=data.ageing,
        actor=actor,
    )
    return view(changed)


def view(lane: Lane) -> LaneView:
    return LaneView(
        name=lane.name,
        capacity=lane.capacity,
        max_depth=lane.max_depth,
        rate=lane.rate,
        order=lane.order,
        ageing=lane.ageing,
        paused=lane.paused,
        paused_reason=lane.paused_reason,
        paused_until=iso_or_none(lane.paused_until),
        running=lane.running,
        queued=lane.queued,
        pending=lane.pending,
    )


routes = Router(
    "/lanes",
    route_handlers=[list_lanes, get_lane, change_lane, put_lane, pause_lane, resume_lane],
    tags=["lanes"],
)
