"""Coming and going: a browser trades its token for a cookie that scripts cannot read."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import JSONBody, SkipValidation

from taskyard.server.asks import anybody, viewer
from taskyard.server.bodies import Strict
from taskyard.server.config import ServerConfig
from taskyard.server.gate import COOKIE, ROOT
from taskyard.server.keyring import Keyring
from taskyard.server.problems import Refusal
from taskyard.server.roles import Caller, Role
from taskyard.server.words import Moment, iso_of_seconds
from taskyard.settings import Discreet

TheKeyring = SkipValidation[NamedDependency[Keyring]]
TheConfig = SkipValidation[NamedDependency[ServerConfig]]

LONGEST_SESSION = 30 * 86_400  # seconds


class Login(Discreet, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    _hidden = frozenset({"token"})

    token: Annotated[str, msgspec.Meta(max_length=1000)]


class Me(msgspec.Struct, frozen=True):
    name: str
    role: Role
    expires_at: Moment | None


@post(
    "/login",
    opt=anybody,
    status_code=200,
    dto=Strict[Login],
    return_dto=None,
    security=[],
    summary="Trade a token for a session cookie",
)
async def login(
    request: Request[Any, Any, Any], keyring: TheKeyring, config: TheConfig, data: JSONBody[Login]
) -> Response[Me]:
    caller = keyring.read(data.token)
    if caller is None or caller.role is Role.NODE:
        raise Refusal(401, "unauthorized", "this token is not valid")
    left = LONGEST_SESSION if not caller.expires else int(caller.expires - time.time())
    return Response(
        _me(caller),
        cookies=[_cookie(request, config, data.token, max(1, min(left, LONGEST_SESSION)))],
    )


@post("/logout", opt=viewer, status_code=204, summary="Forget the session cookie")
async def logout(request: Request[Any, Any, Any], config: TheConfig) -> Response[None]:
    return Response(None, status_code=204, cookies=[_cookie(request, config, "", 0)])


@get("/me", opt=viewer, summary="Who you are")
async def get_me(request: Request[Any, Any, Any]) -> Me:
    return _me(request.user)


def _me(caller: Caller) -> Me:
    return Me(caller.name, caller.role, iso_of_seconds(caller.expires) if caller.expires else None)


def _cookie(
    request: Request[Any, Any, Any], config: ServerConfig, token: str, seconds: int
) -> Cookie:
    return Cookie(
        COOKIE,
        path=quote(str(request.scope.get(ROOT) or "/")),  # as browsers write the path they ask for
        value=token,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=config.secure_cookie or request.scope["scheme"] == "https",
    )


routes = Router("/", route_handlers=[login, logout, get_me], tags=["session"])
