"""Gives all tasks away, or takes them over, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.lane import Lane
from taskyard.domain.moved import Moved
from taskyard.domain.state import State
from taskyard.domain.task import FailedAttempt, Until
from taskyard.store.redis.read import Ask
from taskyard.store.redis.rows import Definition, Life, given, reading, whole_tasks


class _WholeLife(Life, array_like=True, frozen=True):
    """With the fields only Lua looks at otherwise."""

    lease: Any
    request: Any
    dedup: Any
    dedup_kept: Any


_definition = msgspec.msgpack.Decoder(Definition).decode
_life = msgspec.msgpack.Decoder(_WholeLife).decode


async def export(ask: Ask, after: int | None, limit: int) -> list[Moved]:
    _, answer = await ask("find", list(State), None, None, None, limit, after)
    with reading():
        untils = [given(_definition(packed).until) for packed in answer[1]]
        kept = [bool(_life(packed).dedup_kept) for packed in answer[2]]
    return [
        Moved(task, None if until is None else Until(until), keeps)
        for task, until, keeps in zip(whole_tasks(answer), untils, kept, strict=True)
    ]


def task_row(moved: Moved) -> dict[str, Any]:
    """As lua/import_tasks.lua takes it; false is what is not there."""
    task = moved.task
    until = _or_false(moved.dedup_until)
    dedup = _or_false(task.dedup)
    definition = (
        *(task.id, task.kind, task.lane, task.payload, task.group, dedup, until),
        *(tuple(sorted(task.requires)), task.max_charged, task.timeout, task.created_at),
    )
    life = (
        *(task.state, task.reason, task.attempt, task.charged, task.max_charged, task.losses),
        *("", "", "", task.keys or False, False, task.run_at, _or_false(task.deadline)),
        *(_or_false(task.started_at), _or_false(task.ended_at), _or_false(task.node), False),
        *(False, False, dedup, moved.dedup_kept and until),
    )
    return {
        "no": task.no,
        "seq": task.seq,
        "priority": task.priority,
        "definition": definition,
        "life": life,
        "result": task.result,
        "progress": task.progress,
        "failures": [_failure_row(failure) for failure in task.failures],
    }


def lane_row(lane: Lane) -> tuple[object, ...]:
    reason = _or_false(lane.paused_reason)
    return lane.name, _or_false(lane.capacity), lane.paused, reason, lane.order


def rows(moved: Sequence[Moved]) -> list[dict[str, Any]]:
    return [task_row(one) for one in moved]


def _failure_row(failure: FailedAttempt) -> tuple[object, ...]:
    started, node = _or_false(failure.started_at), _or_false(failure.node)
    return failure.attempt, failure.reason, failure.at, started, node, failure.error


def _or_false(value: Any) -> Any:
    return False if value is None else value
