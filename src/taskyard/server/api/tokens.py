"""Tokens: who has one, new ones, and taking them back."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Router, delete, get, post
from litestar.params import JSONBody

from taskyard.engine.log import logger
from taskyard.server.api.session import TheKeyring
from taskyard.server.asks import Actor, InPath, TheYard, admin
from taskyard.server.bodies import Strict
from taskyard.server.keyring import Issued
from taskyard.server.roles import Role
from taskyard.server.tokens import MAX_DAYS, MAX_TOKEN_NAME
from taskyard.server.words import Moment, iso_of_seconds, name_in
from taskyard.settings import Discreet

log = logger("server")


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    role: Role
    expires_at: Moment | None
    made_at: Moment
    made_by: str
    revoked_at: Moment | None
    revoked_by: str | None


class Tokens(msgspec.Struct, frozen=True):
    items: list[TokenView]


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TOKEN_NAME)]
    role: Role
    days: Annotated[float, msgspec.Meta(gt=0, le=MAX_DAYS)] | None = None  # null: for ever


class MadeToken(Discreet, TokenView, frozen=True, kw_only=True):
    _hidden = frozenset({"token"})

    token: str  # shown once: it is not kept


@get("/", opt=admin, summary="All tokens, without the tokens themselves")
async def list_tokens(keyring: TheKeyring) -> Tokens:
    return Tokens([TokenView(**_common(one)) for one in keyring.issued()])


@post("/", opt=admin, dto=Strict[NewToken], return_dto=None, summary="Make a token")
async def make_token(
    yard: TheYard, keyring: TheKeyring, actor: Actor, data: JSONBody[NewToken]
) -> MadeToken:
    """The answer is the only place where it is ever shown."""
    token, made = keyring.sign(data.name, data.role, days=data.days, by=actor)
    # First: without a store to note it in, there is no token that nobody has seen either.
    await yard.note("make_token", f"token:{made.id}", f"{made.role} {made.name}", actor=actor)
    await asyncio.to_thread(keyring.keep, made)
    log.info("make_token", token=made.id, name=made.name, role=made.role, actor=actor)
    return MadeToken(**_common(made), token=token)


@delete("/{token_id:str}", opt=admin, status_code=200, summary="Take a token back")
async def revoke_token(
    yard: TheYard, keyring: TheKeyring, actor: Actor, token_id: InPath
) -> TokenView:
    """Whoever is connected with it is disconnected within a second or two."""
    gone = await asyncio.to_thread(keyring.revoke, name_in(token_id), by=actor)
    log.info("revoke_token", token=gone.id, name=gone.name, actor=actor)
    await yard.note("revoke_token", f"token:{gone.id}", f"{gone.role} {gone.name}", actor=actor)
    return TokenView(**_common(gone))


def _common(one: Issued) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "role": one.role,
        "expires_at": iso_of_seconds(one.expires) if one.expires else None,
        "made_at": iso_of_seconds(one.made_at),
        "made_by": one.made_by,
        "revoked_at": None if one.revoked_at is None else iso_of_seconds(one.revoked_at),
        "revoked_by": one.revoked_by,
    }


routes = Router("/tokens", route_handlers=[list_tokens, make_token, revoke_token], tags=["tokens"])
