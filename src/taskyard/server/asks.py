"""What handlers are given: the yard, who asks, and the role a route is for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar.connection import Request
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter, SkipValidation

from taskyard.server import limits
from taskyard.server.problems import Refusal
from taskyard.server.roles import Caller, Role
from taskyard.yard import Yard

TheYard = SkipValidation[NamedDependency[Yard]]
Actor = SkipValidation[NamedDependency[str]]

InPath = FromPath[str]
Limit = Annotated[int, QueryParameter(ge=1, le=limits.MAX_PAGE)]
Filter = Annotated[str | None, QueryParameter(required=False, max_length=200)]
Since = Annotated[
    datetime | None, QueryParameter(required=False, description="created then or later")
]
Until = Annotated[datetime | None, QueryParameter(required=False, description="created before")]

ROLE = "role"
ANYBODY = "anybody"

anybody: dict[str, Any] = {ROLE: ANYBODY}
viewer: dict[str, Any] = {ROLE: Role.VIEWER}
operator: dict[str, Any] = {ROLE: Role.OPERATOR}
admin: dict[str, Any] = {ROLE: Role.ADMIN}


def actor_of(request: Request[Any, Any, Any]) -> str:
    caller: Caller = request.user
    return caller.actor


async def allowed(request: Request[Any, Any, Any]) -> None:
    """What is asked before all routes. One that says no role, as those the framework makes, is for
    viewers and answers nothing but what methods there are. No guard of the framework: for those it
    copies the whole handler, with every request."""
    needed = request.route_handler.opt.get(ROLE, Role.VIEWER)
    if needed == ANYBODY:
        return
    caller: Caller | None = request.user
    if caller is None:
        raise Refusal(401, "unauthorized", "send a token: Authorization: Bearer ty1_…")
    if not caller.role.covers(needed):
        raise Refusal(403, "forbidden", f"this is for the role {needed}, yours is {caller.role}")
