"""The yard at a glance: its counts, its kinds, who did what, and what is too old."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody, QueryParameter

import taskyard
from taskyard.domain.lane import Audited
from taskyard.domain.state import State
from taskyard.server import limits
from taskyard.server.asks import Actor, Limit, TheYard, admin, viewer
from taskyard.server.bodies import Strict
from taskyard.server.schemas import parameters_of
from taskyard.server.words import Moment, iso


class YardView(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    store: str  # sqlite, postgresql or redis
    paused: bool
    counts: dict[State, int]
    kinds: list[str]
    lanes: int
    nodes: int
    clock: Moment


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    route: str  # with its version, as tasks have it
    lane: str
    priority: int
    timeout: float
    retries: int
    style: str
    description: str
    parameters: dict[str, Any]  # a JSON schema


class Kinds(msgspec.Struct, frozen=True):
    items: list[KindView]


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    no: int
    at: Moment
    actor: str
    action: str
    subject: str
    detail: str


class Audit(msgspec.Struct, frozen=True):
    items: list[AuditLine]
    next: int | None  # `before` of the next page


class Prune(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False


FOR_REAL = Prune()  # no body at all


class PrunedView(msgspec.Struct, frozen=True):
    tasks: int
    audit: int
    dry_run: bool


@get("/yard", opt=viewer, summary="The yard at a glance")
async def get_yard(yard: TheYard) -> YardView:
    return YardView(
        version=taskyard.__version__,
        store=_store(yard.url),
        paused=await yard.is_paused(),
        counts=dict(await yard.counts()),
        kinds=sorted(yard.registry.names),
        lanes=len(await yard.lanes()),
        nodes=len(await yard.nodes()),
        clock=iso(await yard.store.now()),
    )


@get("/kinds", opt=viewer, summary="What can be run, and with which parameters")
async def list_kinds(yard: TheYard) -> Kinds:
    return Kinds(
        [
            KindView(
                name=kind.name,
                route=kind.route,
                lane=kind.lane,
                priority=kind.priority,
                timeout=kind.timeout,
                retries=kind.retry.retries,
                style=kind.style,
                description=(kind.function.__doc__ or "").strip(),
                parameters=parameters_of(kind),
            )
            for kind in sorted(yard.registry, key=lambda kind: kind.name)
        ]
    )


Before = Annotated[int | None, QueryParameter(required=False, ge=0, le=limits.MAX_NUMBER)]


@get("/audit", opt=viewer, summary="Who did what, newest first")
async def list_audit(yard: TheYard, before: Before = None, limit: Limit = 100) -> Audit:
    lines = await yard.audit(limit=limit, before=before)
    return Audit([_line(line) for line in lines], lines[-1].no if len(lines) == limit else None)


@post(
    "/prune",
    opt=admin,
    status_code=200,
    dto=Strict[Prune],
    return_dto=None,
    summary="Remove what has been kept long enough",
)
async def prune(yard: TheYard, actor: Actor, data: JSONBody[Prune] = FOR_REAL) -> PrunedView:
    gone = await yard.prune(dry_run=data.dry_run, actor=actor)
    return PrunedView(gone.tasks, gone.audit, data.dry_run)


def _store(url: str) -> str:
    scheme = url.partition(":")[0].partition("+")[0]
    return {"postgres": "postgresql", "rediss": "redis"}.get(scheme, scheme)


def _line(line: Audited) -> AuditLine:
    return AuditLine(
        no=line.no,
        at=iso(line.at),
        actor=line.actor,
        action=line.action,
        subject=line.subject,
        detail=line.detail,
    )


routes = Router("/", route_handlers=[get_yard, list_kinds, list_audit, prune], tags=["yard"])
