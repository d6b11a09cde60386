"""What operators do to tasks: the scripts answer what they found, here it becomes an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from taskyard.domain.errors import IllegalTransition, InvalidOption, NotFound
from taskyard.domain.lane import MAX_REORDERED, KeyRule, LaneChange
from taskyard.domain.rate import Rate
from taskyard.domain.state import (
    REVIVABLE,
    WAITING,
    Reason,
    State,
    allows,
    require,
    require_revivable,
)
from taskyard.domain.task import check_priority
from taskyard.store.port import Cancellation, Pausing, YardPause
from taskyard.store.redis.figures import ageing_row, rate_row, rule_text
from taskyard.store.redis.rows import or_false

Write = Callable[..., Awaitable[Any]]

_MAY_BE_CANCELLED = [s for s in State if allows(s, State.CANCELLED, Reason.OPERATOR)]
_MAY_BE_PAUSED = [s for s in State if allows(s, State.PAUSED, Reason.OPERATOR)]
_MAY_BE_RETRIED = sorted(REVIVABLE)
_WAIT = sorted(WAITING)


async def cancel(write: Write, task_id: str, actor: str) -> Cancellation:
    reason = _reason(actor)
    found, *answer = await write("cancel", task_id, actor, reason, _MAY_BE_CANCELLED)
    _require_found(task_id, found)
    done, before = answer
    require(task_id, State(before.decode()), State.CANCELLED, reason)
    return Cancellation(done.decode())


async def pause(write: Write, task_id: str, actor: str) -> Pausing:
    reason = _reason(actor)
    found, *answer = await write("pause", task_id, actor, reason, _MAY_BE_PAUSED)
    _require_found(task_id, found)
    done, before = answer
    require(task_id, State(before.decode()), State.PAUSED, reason)
    return Pausing(done.decode())


async def resume(write: Write, task_id: str, actor: str) -> None:
    reason = _reason(actor)
    found, *answer = await write("resume", task_id, actor, reason)
    _require_found(task_id, found)
    was, before = answer
    if not was:
        require(task_id, State(before.decode()), State.PENDING, reason)


async def retry(write: Write, task_id: str, actor: str) -> None:
    found, *answer = await write("retry", task_id, actor, _MAY_BE_RETRIED)
    _require_found(task_id, found)
    before, keeper = answer
    require_revivable(task_id, State(before.decode()))
    if keeper:
        raise IllegalTransition(
            f"task {task_id} cannot be retried: task {keeper.decode()} keeps its dedup key now"
        )


async def prioritize(write: Write, task_id: str, priority: int, actor: str) -> None:
    check_priority(priority)
    found, *answer = await write("prioritize", task_id, priority, actor, _WAIT)
    _require_found(task_id, found)
    state, waits, fifo = answer
    if fifo is not None:
        raise InvalidOption(
            f"lane {fifo.decode()} is first in, first out: its tasks keep the order they came in"
        )
    if not waits:
        raise IllegalTransition(
            f"task {task_id} is {state.decode()} and waits for nothing: its priority cannot change"
        )


async def set_lane(write: Write, name: str, change: LaneChange, actor: str) -> bytes:
    change.check()
    lane, *queued = await write("set_lane", name, actor, _changes(change), MAX_REORDERED)
    if lane is None:
        raise IllegalTransition(
            f"lane {name} has {queued[0]} queued tasks; its order can be changed while at most "
            f"{MAX_REORDERED:,} are queued"
        )
    packed: bytes = lane
    return packed


def _changes(change: LaneChange) -> dict[str, object]:
    """As lua/set_lane.lua takes it: without what stays."""
    changes: dict[str, object] = {
        name: or_false(value)
        for name in ("capacity", "max_depth", "order", "paused")
        if (value := getattr(change, name)) is not msgspec.UNSET
    }
    if change.rate is not msgspec.UNSET:
        changes["rate"] = rate_row(change.rate)
    if change.ageing is not msgspec.UNSET:
        changes["ageing"] = ageing_row(change.ageing)
    if change.paused is not msgspec.UNSET:
        changes |= {"reason": change.paused_reason, "until": change.paused_until}
    return changes


def key_rule(pattern: str, limit: int | None, rate: Rate | None) -> tuple[str | None, str]:
    """As it is kept, and as the audit trail tells of it."""
    if limit is None:
        return None, "removed"
    rule = KeyRule(pattern, limit, rate)
    rule.check()
    often = "" if rate is None else f", {rate.starts} in {rate.seconds:g} s, burst {rate.burst}"
    return rule_text(rule), f"limit {limit}{often}"


def yard_pause(answer: bytes | None) -> YardPause | None:
    """From what lua/yard_paused.lua answers."""
    if answer is None:
        return None
    return YardPause(None if answer == b"1" else int(answer))


def _reason(actor: str) -> Reason:
    return Reason.SYSTEM if actor == "system" else Reason.OPERATOR


def _require_found(task_id: str, found: int) -> None:
    if not found:
        raise NotFound(f"there is no task {task_id}")
