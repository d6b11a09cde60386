"""Gives all tasks away, or takes them over, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.moved import Bucket, Moved
from taskyard.domain.task import FailedAttempt, TaskQuery, Until
from taskyard.store.redis.read import Ask, asked
from taskyard.store.redis.rows import Definition, Life, given, or_false, reading, whole_tasks

_definition = msgspec.msgpack.Decoder(Definition).decode
_life = msgspec.msgpack.Decoder(Life).decode


async def export(ask: Ask, after: int | None, limit: int) -> list[Moved]:
    _, answer, unmet = await ask("find", *asked(TaskQuery(limit=limit, after=after)), True)
    with reading():
        untils = [given(_definition(packed).until) for packed in answer[1]]
        lives = [_life(packed) for packed in answer[2]]
    return [
        Moved(
            task,
            None if until is None else Until(until),
            bool(life.dedup_kept),
            _rank(life),
            tuple(one.decode() for one in ids),
        )
        for task, until, life, ids in zip(whole_tasks(answer), untils, lives, unmet, strict=True)
    ]


def buckets(answer: Sequence[Any]) -> list[Bucket]:
    """From what lua/buckets.lua answers."""
    rows = zip(answer[::3], answer[1::3], answer[2::3], strict=True)
    return [Bucket(name.decode(), int(float(full)), bool(lane)) for name, full, lane in rows]


def _rank(life: Life) -> int:
    return int(life.place[:14], 16) if life.place else life.priority


def task_row(moved: Moved) -> dict[str, Any]:
    """As lua/import_tasks.lua takes it; false is what is not there."""
    task = moved.task
    until = or_false(moved.dedup_until)
    dedup = or_false(task.dedup)
    definition = (
        *(task.id, task.kind, task.lane, task.payload, task.group, dedup, until),
        *(tuple(sorted(task.requires)), task.max_charged, task.timeout, task.created_at),
        *(() if task.trace is None else (task.trace,)),
    )
    life = (
        *(False, task.attempt, task.charged, task.losses, task.max_charged, task.priority),
        *("", "", task.run_at, task.keys or False, task.state, task.reason, False, False),
        *(or_false(task.node), or_false(task.started_at), or_false(task.ended_at), False, False),
        *(or_false(task.deadline), dedup, moved.dedup_kept and until),
    )
    return {
        "no": task.no,
        "seq": task.seq,
        "rank": moved.rank,
        "definition": definition,
        "life": life,
        "result": task.result,
        "progress": task.progress,
        "failures": [_failure_row(failure) for failure in task.failures],
        "checkpoint": task.checkpoint,
        "depends_on": task.depends_on,
        "waits_for": task.waits_for,
        "unmet": moved.unmet,
        "on_failure": task.on_failure,
    }


def rows(moved: Sequence[Moved]) -> list[dict[str, Any]]:
    return [task_row(one) for one in moved]


def _failure_row(failure: FailedAttempt) -> tuple[object, ...]:
    started, node = or_false(failure.started_at), or_false(failure.node)
    return failure.attempt, failure.reason, failure.at, started, node, failure.error
