"""Subscriptions: tasks that share the key `sub:{id}`, so that one of them runs at a time."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.params import JSONBody

from taskyard.domain.errors import NotFound
from taskyard.domain.task import TaskQuery, check_name
from taskyard.server import cursor as cursors
from taskyard.server.api.create import THERE_ALREADY, Created, CreateTask, create
from taskyard.server.asks import Actor, Filter, InPath, Limit, TheYard, operator, viewer
from taskyard.server.bodies import Strict
from taskyard.server.pages import page_of
from taskyard.server.views import TaskPage
from taskyard.server.words import name_in

DOWNLOAD = "download"
SYSTEM = "system"


class Download(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    params: dict[str, Any] = {}
    lane: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=1, le=10)] | None = None


PLAIN = Download()  # no body at all


class Deleted(msgspec.Struct, frozen=True):
    cancelled: int  # tasks that were waiting, or running and asked to stop


@get("/{subscription:str}/tasks", opt=viewer, summary="The tasks of a subscription")
async def subscription_tasks(
    yard: TheYard,
    subscription: InPath,
    limit: Limit = 50,
    cursor: Filter = None,
) -> TaskPage:
    """A page may be short or empty although there is a `next`, which is null at the end."""
    query = TaskQuery(key=key_of(subscription), limit=limit, after=cursors.read(cursor))
    return await page_of(yard, query)


@post(
    "/{subscription:str}/download",
    opt=operator,
    dto=Strict[Download],
    return_dto=None,
    responses=THERE_ALREADY,
    summary="Start a download of a subscription",
)
async def download(
    yard: TheYard, subscription: InPath, data: JSONBody[Download] = PLAIN
) -> Response[Created]:
    if DOWNLOAD not in yard.registry:
        raise NotFound(f"this application has no kind called {DOWNLOAD}")
    asked = CreateTask(
        kind=DOWNLOAD,
        params=data.params,
        lane=data.lane,
        priority=data.priority,
        keys=[key_of(subscription)],
    )
    return await create(yard, asked)


@delete(
    "/{subscription:str}",
    opt=operator,
    status_code=200,
    summary="Cancel everything of a subscription that has been deleted",
)
async def delete_subscription(yard: TheYard, actor: Actor, subscription: InPath) -> Deleted:
    """Its tasks are cancelled as the system; the audit trail also has who asked."""
    key = key_of(subscription)
    await yard.note("delete_subscription", f"key:{key}", actor=actor)
    return Deleted(await yard.cancel_all(key=key, actor=SYSTEM))


def key_of(subscription: str) -> str:
    key = f"sub:{name_in(subscription)}"
    check_name("key", key)
    return key


routes = Router(
    "/subscriptions",
    route_handlers=[subscription_tasks, download, delete_subscription],
    tags=["subscriptions"],
)
