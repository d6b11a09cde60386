"""The request queue: the same tasks, seen as queued, running, done, failed or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody, QueryParameter

from taskyard.domain.state import State
from taskyard.domain.task import TaskLine, TaskQuery, check_name
from taskyard.server import cursor as cursors
from taskyard.server.api.tasks import Prioritize
from taskyard.server.asks import (
    Actor,
    Filter,
    InPath,
    Limit,
    Since,
    TheYard,
    Until,
    operator,
    viewer,
)
from taskyard.server.bodies import Strict
from taskyard.server.words import Moment, instant_of, iso, iso_or_none, name_in
from taskyard.yard import Yard


class RequestState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


STATES = {
    RequestState.QUEUED: (State.PENDING, State.QUEUED, State.PAUSED),
    RequestState.RUNNING: (State.RUNNING,),
    RequestState.DONE: (State.COMPLETED,),
    RequestState.FAILED: (State.FAILED,),
    RequestState.CANCELLED: (State.CANCELLED,),
}
REQUEST_STATE = {state: shown for shown, states in STATES.items() for state in states}


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    lane: str
    priority: int
    state: RequestState
    keys: tuple[str, ...]
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None


class RequestPage(msgspec.Struct, frozen=True):
    items: list[RequestView]
    next: str | None


class RequestActed(msgspec.Struct, frozen=True):
    id: str
    outcome: str
    state: RequestState


@get("/", opt=viewer, summary="List requests, newest first")
async def list_requests(
    *,
    yard: TheYard,
    in_state: Annotated[RequestState | None, QueryParameter(name="state", required=False)] = None,
    lane: Filter = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Filter = None,
) -> RequestPage:
    """A page may be short or empty although there is a `next`, which is null at the end."""
    if lane is not None:
        check_name("lane", lane)
    query = TaskQuery(
        lane=lane,
        since=instant_of(since, "since"),
        until=instant_of(until, "until"),
        limit=limit,
        after=cursors.read(cursor),
    )
    return await in_states(yard, query, (None,) if in_state is None else STATES[in_state])


@post("/{request_id:str}/cancel", opt=operator, status_code=200, summary="Cancel a request")
async def cancel_request(yard: TheYard, actor: Actor, request_id: InPath) -> RequestActed:
    name = name_in(request_id)
    return await _acted(yard, name, await yard.cancel(name, actor=actor))


@post(
    "/{request_id:str}/prioritize",
    opt=operator,
    status_code=200,
    dto=Strict[Prioritize],
    return_dto=None,
    summary="Change the place of a queued request",
)
async def prioritize_request(
    yard: TheYard, actor: Actor, request_id: InPath, data: JSONBody[Prioritize]
) -> RequestActed:
    name = name_in(request_id)
    await yard.prioritize(name, data.priority, actor=actor)
    return await _acted(yard, name, "prioritized")


async def in_states(yard: Yard, query: TaskQuery, states: Sequence[State | None]) -> RequestPage:
    """A page of those in any of these states, newest first.

    Each state was searched down to some number, and below the highest of these not all is known.
    """
    pages = [await yard.page(msgspec.structs.replace(query, state=state)) for state in states]
    floor = max((page.next for page in pages if page.next is not None), default=0)
    known = [line for page in pages for line in page.tasks if line.no >= floor]
    found = sorted(known, key=lambda line: line.no, reverse=True)[: query.limit]
    after = found[-1].no if len(found) < len(known) else floor
    return RequestPage(
        [_request(line) for line in found], cursors.written(after) if after else None
    )


def _request(task: TaskLine) -> RequestView:
    return RequestView(
        id=task.id,
        kind=task.kind,
        lane=task.lane,
        priority=task.priority,
        state=REQUEST_STATE[task.state],
        keys=task.keys,
        created_at=iso(task.created_at),
        started_at=iso_or_none(task.started_at),
        ended_at=iso_or_none(task.ended_at),
    )


async def _acted(yard: Yard, task_id: str, outcome: str) -> RequestActed:
    return RequestActed(task_id, outcome, REQUEST_STATE[(await yard.get(task_id)).state])


routes = Router(
    "/requests",
    route_handlers=[list_requests, cancel_request, prioritize_request],
    tags=["request queue"],
)
