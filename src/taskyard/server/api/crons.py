"""Periodic tasks: looked at and changed while everything runs."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Router, delete, get, post, put
from litestar.params import JSONBody

from taskyard.domain.cron import CatchUp, CronEntry
from taskyard.domain.errors import NotFound
from taskyard.engine.redact import without_secrets
from taskyard.server.api.create import CreateTask, Name, new_task
from taskyard.server.asks import Actor, InPath, TheYard, operator, viewer
from taskyard.server.bodies import Strict
from taskyard.server.words import Moment, iso_or_none, json_of, name_in
from taskyard.yard import Yard


class CronView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    schedule: str
    timezone: str
    catch_up: CatchUp
    paused: bool
    declared: bool  # by a program; else an operator's
    kind: str
    lane: str
    priority: int
    params: Any
    next_at: Moment | None
    last_at: Moment | None


class Crons(msgspec.Struct, frozen=True):
    items: list[CronView]


class CronSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When, and the task that each tick creates; what is left out of that is as its kind says."""

    schedule: str  # five fields: minute hour day month weekday
    kind: Name
    params: dict[str, Any] = {}
    lane: Name | None = None
    priority: int | None = None
    timezone: str = "UTC"
    catch_up: CatchUp = CatchUp.ONE


@get("/", opt=viewer, summary="All periodic tasks")
async def list_crons(yard: TheYard) -> Crons:
    return Crons([_view(entry) for entry in await yard.crons()])


@put(
    "/{cron:str}",
    opt=operator,
    dto=Strict[CronSettings],
    return_dto=None,
    summary="Make or replace a periodic task",
)
async def put_cron(
    yard: TheYard, actor: Actor, cron: InPath, data: JSONBody[CronSettings]
) -> CronView:
    """One that a program declares is the operator's from then on."""
    asked = CreateTask(kind=data.kind, params=data.params, lane=data.lane, priority=data.priority)
    task = await new_task(yard, asked)
    name = name_in(cron)
    await yard.set_cron(
        name,
        data.schedule,
        task,
        timezone=data.timezone,
        catch_up=data.catch_up,
        actor=actor,
    )
    return await _entry(yard, name)


@delete("/{cron:str}", opt=operator, summary="Forget a periodic task")
async def delete_cron(yard: TheYard, actor: Actor, cron: InPath) -> None:
    """One that a program declares comes back when that starts a worker."""
    await yard.drop_cron(name_in(cron), actor=actor)


@post("/{cron:str}/pause", opt=operator, status_code=200, summary="Start nothing of it")
async def pause_cron(yard: TheYard, actor: Actor, cron: InPath) -> CronView:
    name = name_in(cron)
    await yard.pause_cron(name, actor=actor)
    return await _entry(yard, name)


@post("/{cron:str}/resume", opt=operator, status_code=200, summary="Go on with the next tick")
async def resume_cron(yard: TheYard, actor: Actor, cron: InPath) -> CronView:
    name = name_in(cron)
    await yard.resume_cron(name, actor=actor)
    return await _entry(yard, name)


async def _entry(yard: Yard, name: str) -> CronView:
    found = next((one for one in await yard.crons() if one.cron.name == name), None)
    if found is None:
        raise NotFound(f"there is no cron {name}")
    return _view(found)


def _view(entry: CronEntry) -> CronView:
    cron = entry.cron
    return CronView(
        name=cron.name,
        schedule=cron.schedule,
        timezone=cron.timezone,
        catch_up=cron.catch_up,
        paused=cron.paused,
        declared=cron.declared,
        kind=cron.task.kind,
        lane=cron.task.lane,
        priority=cron.task.priority,
        params=without_secrets(json_of(cron.task.payload)),
        next_at=iso_or_none(entry.next_at),
        last_at=iso_or_none(entry.last_at),
    )


routes = Router(
    "/crons",
    route_handlers=[list_crons, put_cron, delete_cron, pause_cron, resume_cron],
    tags=["cron"],
)
