"""Keys: who holds them, who waits for them, and how many may."""

from __future__ import annotations

import msgspec
from litestar import Router, delete, get, put
from litestar.params import JSONBody

from taskyard.domain.errors import NotFound
from taskyard.domain.lane import DEFAULT_KEY_LIMIT, Key, KeyRule
from taskyard.domain.rate import Rate
from taskyard.domain.task import check_name
from taskyard.server.asks import Actor, InPath, Limit, TheYard, operator, viewer
from taskyard.server.bodies import Strict
from taskyard.server.words import name_in


class Keys(msgspec.Struct, frozen=True):
    """Those that are held or waited for, and the rules that differ from a limit of 1."""

    items: list[Key]
    rules: list[KeyRule]


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: int = DEFAULT_KEY_LIMIT
    rate: Rate | None = None


@get("/", opt=viewer, summary="Keys in use, and rules")
async def list_keys(yard: TheYard, limit: Limit = 100) -> Keys:
    return Keys(await yard.keys(limit), await yard.key_rules())


@put(
    "/rules/{pattern:str}",
    opt=operator,
    dto=Strict[RuleSettings],
    return_dto=None,
    summary="Set the rule of a key, or of all with a prefix",
)
async def put_rule(
    yard: TheYard, actor: Actor, pattern: InPath, data: JSONBody[RuleSettings]
) -> KeyRule:
    """`host:*` is a prefix, anything else an exact name."""
    rule = KeyRule(name_in(pattern), data.limit, data.rate)
    check_name("key", rule.pattern)
    rule.check()
    await yard.limit_key(rule.pattern, rule.limit, rate=rule.rate, actor=actor)
    return rule


@delete("/rules/{pattern:str}", opt=operator, summary="Remove a rule")
async def delete_rule(yard: TheYard, actor: Actor, pattern: InPath) -> None:
    name = name_in(pattern)
    if all(rule.pattern != name for rule in await yard.key_rules()):
        raise NotFound(f"there is no rule for {name}")
    await yard.limit_key(name, None, actor=actor)


routes = Router("/keys", route_handlers=[list_keys, put_rule, delete_rule], tags=["keys"])
