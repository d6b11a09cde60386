"""The queue as a whole: pause it, change capacities, see how full it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody

from taskyard.domain.lane import LaneChange
from taskyard.domain.task import TaskQuery, check_name
from taskyard.server import limits
from taskyard.server.api.lanes import Lanes, LaneView, Seconds, view
from taskyard.server.api.requests import STATES, RequestPage, RequestState, in_states
from taskyard.server.asks import Actor, Limit, Since, TheYard, Until, operator, viewer
from taskyard.server.bodies import Strict
from taskyard.server.problems import Refusal
from taskyard.server.words import Moment, instant_of, iso


class Scope(StrEnum):
    ALL = "all"
    LANE = "lane"


class PauseQueue(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"for_": "for"}
):
    scope: Scope = Scope.ALL
    lane: str | None = None
    reason: Annotated[str, msgspec.Meta(max_length=1000)] | None = None  # of a lane
    until: datetime | None = None
    for_: Seconds | None = None


PAUSE_ALL = PauseQueue()  # no body at all


class ResumeQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scope: Scope = Scope.ALL
    lane: str | None = None


RESUME_ALL = ResumeQueue()  # no body at all


Capacities = dict[str, int | None]


class QueueState(msgspec.Struct, frozen=True):
    paused: bool  # as a whole
    lanes: list[LaneView]


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    paused: bool
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    lanes: list[LaneView]


class QueueList(msgspec.Struct, frozen=True):
    """What runs and what waits, newest first."""

    running: RequestPage
    queued: RequestPage
    at: Moment


@post(
    "/pause",
    opt=operator,
    status_code=200,
    dto=Strict[PauseQueue],
    return_dto=None,
    summary="Start nothing new, everywhere or in a lane",
)
async def pause_queue(
    yard: TheYard, actor: Actor, data: JSONBody[PauseQueue] = PAUSE_ALL
) -> QueueState:
    duration = None if data.for_ is None else timedelta(seconds=data.for_)
    lane = _lane(data.scope, data.lane)
    if lane is None:
        if data.reason is not None:
            raise Refusal(422, "invalid", "a reason is kept with a lane", path="$.reason")
        await yard.pause(until=data.until, for_=duration, actor=actor)
    else:
        await yard.pause_lane(
            lane, until=data.until, for_=duration, reason=data.reason, actor=actor
        )
    return await _state(yard)


@post(
    "/resume",
    opt=operator,
    status_code=200,
    dto=Strict[ResumeQueue],
    return_dto=None,
    summary="Go on, everywhere or in a lane",
)
async def resume_queue(
    yard: TheYard, actor: Actor, data: JSONBody[ResumeQueue] = RESUME_ALL
) -> QueueState:
    """A lane that was paused by itself stays paused when everything goes on."""
    lane = _lane(data.scope, data.lane)
    if lane is None:
        await yard.resume(actor=actor)
    else:
        await yard.resume_lane(lane, actor=actor)
    return await _state(yard)


@post(
    "/capacity",
    opt=operator,
    status_code=200,
    dto=Strict[Capacities],
    return_dto=None,
    summary="Change the capacities of lanes",
)
async def change_capacity(yard: TheYard, actor: Actor, data: JSONBody[Capacities]) -> Lanes:
    """By lane: `{"no_cookie": 4}`; null is no limit. All are checked before one is changed."""
    if len(data) > limits.MAX_BULK:
        raise Refusal(413, "too_large", f"at most {limits.MAX_BULK} lanes at once")
    for name, capacity in data.items():
        check_name("lane", name)
        LaneChange(capacity=capacity).check()
    for name, capacity in data.items():
        await yard.set_lane(name, capacity=capacity, actor=actor)
    return Lanes([view(lane) for lane in await yard.lanes()])


@get("/stats", opt=viewer, summary="How full the queue is")
async def queue_stats(yard: TheYard) -> QueueStats:
    counts = await yard.counts()
    by_state = {
        shown: sum(counts.get(state, 0) for state in states) for shown, states in STATES.items()
    }
    return QueueStats(
        paused=await yard.is_paused(),
        queued=by_state[RequestState.QUEUED],
        running=by_state[RequestState.RUNNING],
        done=by_state[RequestState.DONE],
        failed=by_state[RequestState.FAILED],
        cancelled=by_state[RequestState.CANCELLED],
        lanes=[view(lane) for lane in await yard.lanes()],
    )


@get("/list", opt=viewer, summary="What runs and what waits")
async def queue_list(
    yard: TheYard, since: Since = None, until: Until = None, limit: Limit = 50
) -> QueueList:
    """`next` goes on in `/api/requests` with that state."""
    query = TaskQuery(
        since=instant_of(since, "since"), until=instant_of(until, "until"), limit=limit
    )
    return QueueList(
        running=await in_states(yard, query, STATES[RequestState.RUNNING]),
        queued=await in_states(yard, query, STATES[RequestState.QUEUED]),
        at=iso(await yard.store.now()),
    )


def _lane(scope: Scope, lane: str | None) -> str | None:
    if (scope is Scope.LANE) != (lane is not None):
        raise Refusal(422, "invalid", "give a lane with the scope lane, and only then")
    return lane


async def _state(yard: TheYard) -> QueueState:
    return QueueState(await yard.is_paused(), [view(lane) for lane in await yard.lanes()])


routes = Router(
    "/queue",
    route_handlers=[pause_queue, resume_queue, change_capacity, queue_stats, queue_list],
    tags=["request queue"],
)
