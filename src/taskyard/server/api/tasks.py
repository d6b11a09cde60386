"""Tasks: list them, look at one, act on one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody, QueryParameter

from taskyard.domain.state import State
from taskyard.domain.task import TaskQuery, check_name
from taskyard.server import cursor as cursors
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
from taskyard.server.pages import containing, page_of
from taskyard.server.views import (
    ExplanationView,
    TaskPage,
    TaskView,
    explanation,
    whole,
)
from taskyard.server.words import instant_of, name_in


class Acted(msgspec.Struct, frozen=True):
    """What came of an action: `asked` means that a running body was asked and may take a while."""

    id: str
    outcome: str
    state: State


class Prioritize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    priority: Annotated[int, msgspec.Meta(ge=1, le=10)]


@get("/", opt=viewer, summary="List tasks, newest first")
async def list_tasks(
    *,
    yard: TheYard,
    in_state: Annotated[State | None, QueryParameter(name="state", required=False)] = None,
    kind: Filter = None,
    lane: Filter = None,
    key: Filter = None,
    since: Since = None,
    until: Until = None,
    q: Filter = None,
    limit: Limit = 50,
    cursor: Filter = None,
) -> TaskPage:
    """Filters go together; `q` is a text in the id, kind, lane, keys, group or error. A page may be
    short or empty although there is a `next`: so far no more was found. `next` is null at the end.
    """
    for what, name in (("kind", kind), ("lane", lane), ("key", key), ("q", q or None)):
        if name is not None:
            check_name(what, name)
    query = TaskQuery(
        state=in_state,
        kind=kind,
        lane=lane,
        key=key,
        since=instant_of(since, "since"),
        until=instant_of(until, "until"),
        limit=limit,
        after=cursors.read(cursor),
    )
    return await containing(yard, query, q) if q else await page_of(yard, query)


@get("/{task_id:str}", opt=viewer, summary="All about one task")
async def get_task(yard: TheYard, task_id: InPath) -> TaskView:
    task = await yard.get(name_in(task_id))
    return whole(task, await yard.explain(task.id))


@get("/{task_id:str}/explain", opt=viewer, summary="Why a task waits")
async def explain_task(yard: TheYard, task_id: InPath) -> ExplanationView:
    return explanation(await yard.explain(name_in(task_id)))


@post("/{task_id:str}/cancel", opt=operator, status_code=200, summary="Cancel a task")
async def cancel_task(yard: TheYard, actor: Actor, task_id: InPath) -> Acted:
    """One that runs is asked to stop."""
    name = name_in(task_id)
    return await _acted(yard, name, await yard.cancel(name, actor=actor))


@post("/{task_id:str}/pause", opt=operator, status_code=200, summary="Pause a task")
async def pause_task(yard: TheYard, actor: Actor, task_id: InPath) -> Acted:
    """One that runs is asked to end at its next checkpoint."""
    name = name_in(task_id)
    return await _acted(yard, name, await yard.pause_task(name, actor=actor))


@post("/{task_id:str}/resume", opt=operator, status_code=200, summary="Resume a paused task")
async def resume_task(yard: TheYard, actor: Actor, task_id: InPath) -> Acted:
    name = name_in(task_id)
    await yard.resume_task(name, actor=actor)
    return await _acted(yard, name, "resumed")


@post("/{task_id:str}/retry", opt=operator, status_code=200, summary="Run an ended task again")
async def retry_task(yard: TheYard, actor: Actor, task_id: InPath) -> Acted:
    name = name_in(task_id)
    await yard.retry(name, actor=actor)
    return await _acted(yard, name, "retried")


@post(
    "/{task_id:str}/prioritize",
    opt=operator,
    status_code=200,
    dto=Strict[Prioritize],
    return_dto=None,
    summary="Change the place of a waiting task",
)
async def prioritize_task(
    yard: TheYard, actor: Actor, task_id: InPath, data: JSONBody[Prioritize]
) -> Acted:
    name = name_in(task_id)
    await yard.prioritize(name, data.priority, actor=actor)
    return await _acted(yard, name, "prioritized")


async def _acted(yard: TheYard, task_id: str, outcome: str) -> Acted:
    return Acted(task_id, outcome, (await yard.get(task_id)).state)


routes = Router(
    "/tasks",
    route_handlers=[
        list_tasks,
        get_task,
        explain_task,
        cancel_task,
        pause_task,
        resume_task,
        retry_task,
        prioritize_task,
    ],
    tags=["tasks"],
)
