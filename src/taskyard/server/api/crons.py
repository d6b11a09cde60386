"""Periodic tasks: looked at and changed while everything runs."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from litestar import Router, delete, get, patch, post, put
from litestar.params import JSONBody

from taskyard.domain.cron import CatchUp, CronEntry
from taskyard.domain.errors import NotFound
from taskyard.domain.task import NewTask
from taskyard.engine.redact import without_secrets
from taskyard.server.api.create import CreateTask, Name, new_task
from taskyard.server.asks import Actor, InPath, TheYard, operator, viewer
from taskyard.server.bodies import Strict
from taskyard.server.words import Moment, iso_or_none, json_of, name_in
from taskyard.yard import Yard

Unset = msgspec.UnsetType
UNSET = msgspec.UNSET

T = TypeVar("T")


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


class CronChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is; with another kind, it is as that kind says."""

    schedule: str | Unset = UNSET
    kind: Name | Unset = UNSET
    params: dict[str, Any] | Unset = UNSET
    lane: Name | Unset = UNSET
    priority: int | Unset = UNSET
    timezone: str | Unset = UNSET
    catch_up: CatchUp | Unset = UNSET


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
    return _view(await _entry(yard, name))


@patch(
    "/{cron:str}",
    opt=operator,
    dto=Strict[CronChange],
    return_dto=None,
    summary="Change a periodic task",
)
async def change_cron(
    yard: TheYard, actor: Actor, cron: InPath, data: JSONBody[CronChange]
) -> CronView:
    """One that is paused stays so. Parameters are kept as they are if they come as they are shown,
    secrets hidden; where one of them changes, secrets have to be said anew."""
    name = name_in(cron)
    now = (await _entry(yard, name)).cron
    await yard.set_cron(
        name,
        _or(data.schedule, now.schedule),
        await _changed(yard, now.task, data),
        timezone=_or(data.timezone, now.timezone),
        catch_up=_or(data.catch_up, now.catch_up),
        paused=now.paused,
        actor=actor,
    )
    return _view(await _entry(yard, name))


async def _changed(yard: Yard, task: NewTask, data: CronChange) -> NewTask:
    """Secrets stay only with all other parameters, and the kind: whoever could change those alone
    could have a secret sent to where it does not belong."""
    same_kind = isinstance(data.kind, Unset) or _is(yard, data.kind, task.kind)
    shown = without_secrets(json_of(task.payload))
    if not (same_kind and _or(data.params, shown) == shown):
        asked = CreateTask(kind=_or(data.kind, task.kind), params=_or(data.params, {}))
        anew = await new_task(yard, asked)
        changed = msgspec.structs.replace(task, kind=anew.kind, payload=anew.payload)
        task = changed if same_kind else anew
    return msgspec.structs.replace(
        task, lane=_or(data.lane, task.lane), priority=_or(data.priority, task.priority)
    )


def _is(yard: Yard, name: str, route: str) -> bool:
    """Whether a kind of this name is what a task of that route runs."""
    return name == route or (name in yard.registry and yard.registry[name].route == route)


def _or(said: T | Unset, now: T) -> T:
    return now if isinstance(said, Unset) else said


@delete("/{cron:str}", opt=operator, summary="Forget a periodic task")
async def delete_cron(yard: TheYard, actor: Actor, cron: InPath) -> None:
    """One that a program declares comes back when that starts a worker."""
    await yard.drop_cron(name_in(cron), actor=actor)


@post("/{cron:str}/pause", opt=operator, status_code=200, summary="Start nothing of it")
async def pause_cron(yard: TheYard, actor: Actor, cron: InPath) -> CronView:
    name = name_in(cron)
    await yard.pause_cron(name, actor=actor)
    return _view(await _entry(yard, name))


@post("/{cron:str}/resume", opt=operator, status_code=200, summary="Go on with the next tick")
async def resume_cron(yard: TheYard, actor: Actor, cron: InPath) -> CronView:
    name = name_in(cron)
    await yard.resume_cron(name, actor=actor)
    return _view(await _entry(yard, name))


async def _entry(yard: Yard, name: str) -> CronEntry:
    found = next((one for one in await yard.crons() if one.cron.name == name), None)
    if found is None:
        raise NotFound(f"there is no cron {name}")
    return found


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
    route_handlers=[list_crons, put_cron, change_cron, delete_cron, pause_cron, resume_cron],
    tags=["cron"],
)
