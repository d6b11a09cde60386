"""Lanes, rules of keys and the yard, as operators set them."""

from __future__ import annotations

from typing import Any

import msgspec

from taskyard.domain.clock import Instant, micros
from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.domain.lane import MAX_REORDERED, KeyRule, Lane, LaneChange
from taskyard.domain.rate import Rate
from taskyard.store.postgres.connection import Database
from taskyard.store.postgres.turn import to_json

_SET_LANE = "SELECT taskyard.set_lane($1, $2, $3, $4, $5)"
_SET_KEY_RULE = "SELECT taskyard.set_key_rule($1, $2, $3, $4, $5, $6, $7, $8)"
_PAUSE_YARD = "SELECT taskyard.pause_yard($1, $2, $3, $4, '')"


async def lane_of(database: Database, name: str) -> Lane | None:
    lanes = await database.read(list[Lane], "lanes")
    return next((lane for lane in lanes if lane.name == name), None)


async def set_lane(
    database: Database, clock: int, name: str, change: LaneChange, actor: str
) -> Lane:
    change.check()
    changes = to_json(_changes(change))
    queued = await database.value(_SET_LANE, clock, name, changes, MAX_REORDERED, actor)
    if queued is not None:
        raise IllegalTransition(
            f"lane {name} has {queued} queued tasks; its order can be changed while at most "
            f"{MAX_REORDERED:,} are queued"
        )
    lane = await lane_of(database, name)
    if lane is None:
        raise NotFound(f"there is no lane {name}")
    return lane


def _changes(change: LaneChange) -> dict[str, Any]:
    """As functions/105_settings.sql reads them; what is not to be set is not there."""
    changes: dict[str, Any] = {
        name: value
        for name in ("capacity", "max_depth", "order")
        if (value := getattr(change, name)) is not msgspec.UNSET
    }
    if change.ageing is not msgspec.UNSET:
        changes["ageing"] = None if change.ageing is None else micros(change.ageing)
    if change.rate is not msgspec.UNSET:
        changes |= rate_columns(change.rate) | {"rate_text": said(change.rate)}
    if change.paused is not msgspec.UNSET:
        until = change.paused_until if change.paused else None
        changes |= {"paused": change.paused, "paused_reason": change.paused_reason}
        changes["paused_until"] = until
    return changes


async def set_key_rule(
    database: Database, clock: int, pattern: str, rule: KeyRule | None, actor: str
) -> None:
    if rule is None:
        limit, rate, detail = None, None, "removed"
    else:
        rule.check()
        limit, rate, detail = rule.limit, rule.rate, f"limit {rule.limit}"
    if rate is not None:
        detail = f"{detail}, {said(rate)}"
    columns = rate_columns(rate).values()
    await database.value(_SET_KEY_RULE, clock, pattern, limit, *columns, detail, actor)


async def pause_yard(
    database: Database, clock: int, paused: bool, until: Instant | None, actor: str
) -> None:
    await database.value(_PAUSE_YARD, clock, paused, until if paused else None, actor)


def rate_columns(rate: Rate | None) -> dict[str, Any]:
    """A rate as lanes and rules have it: as it was given, and what it comes to."""
    return {
        "rate": None if rate is None else to_json(rate),
        "rate_interval": None if rate is None else rate.interval,
        "rate_burst": None if rate is None else rate.burst,
    }


def said(rate: Rate | None) -> str:
    if rate is None:
        return "None"
    return f"{rate.starts} in {rate.seconds:g} s, burst {rate.burst}"
