"""Turns new tasks into the arrays sql enqueue takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.domain.clock import micros
from taskyard.domain.errors import InvalidOption
from taskyard.domain.node import Hold
from taskyard.domain.task import (
    MAX_NAME,
    MAX_PAYLOAD_BYTES,
    Duplicate,
    Enqueue,
    Enqueued,
    NewTask,
    Refused,
)

SEPARATOR = "\x1f"  # names are printable, so it is in none of them
MOST_BYTES = 4  # that a character takes

TYPES = (
    *("bigint", "bigint", "integer", "bigint", "text[]", "text[]", "text[]", "text[]", "integer[]"),
    *("integer[]", "smallint[]", "integer[]", "bigint[]", "text[]", "bigint[]", "bigint[]"),
    *("bigint[]", "text[]", "text[]", "text[]", "text[]", "text[]", "boolean[]", "text[]"),
    *("text[]", "boolean", "text[]"),
)
ENQUEUE = (
    "SELECT * FROM taskyard.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
    "$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)"
)


ENQUEUE_ONE = "SELECT taskyard.enqueue_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
ENQUEUE_PLAIN = (
    "SELECT taskyard.enqueue_plain($1, $2, $3, $4, $5, $6, $7, $8, string_to_array($9, E'\\x1f'), "
    "string_to_array($10, E'\\x1f'), $11, $12, $13, $14)"
)


class _Numbering(dict[Any, int]):
    """Gives each new thing the next number, from 1 as SQL counts."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = len(self) + 1
        return self[thing]


def enqueue_args(
    offset: int, tasks: Sequence[NewTask], by: Hold | None = None, *, joined: bool = False
) -> tuple[object, ...]:
    """In the order of functions/080_enqueue.sql."""
    lanes, routes = _Numbering(), _Numbering()
    lane = [lanes[task.lane] for task in tasks]
    route = [routes[task.kind, tuple(sorted(task.requires))] for task in tasks]
    return (
        offset,
        *_by(by),
        list(lanes),
        [kind for kind, _ in routes],
        [SEPARATOR.join(requires) for _, requires in routes],
        [task.id for task in tasks],
        lane,
        route,
        [task.priority for task in tasks],
        [task.max_charged for task in tasks],
        [micros(task.timeout) for task in tasks],
        [task.payload for task in tasks],
        [task.run_at for task in tasks],
        [None if task.delay is None else micros(task.delay) for task in tasks],
        [task.deadline for task in tasks],
        [SEPARATOR.join(task.keys) if task.keys else None for task in tasks],
        [task.group or None for task in tasks],
        [task.dedup.key if task.dedup else None for task in tasks],
        [str(task.dedup.until) if task.dedup else None for task in tasks],
        [str(task.dedup.clash) if task.dedup else None for task in tasks],
        [task.refuse_if_held for task in tasks],
        [SEPARATOR.join(task.depends_on) if task.depends_on else None for task in tasks],
        [str(task.on_failure) for task in tasks],
        joined,
        _traces(tasks),
    )


def is_plain(task: NewTask) -> bool:
    """Due at once, and with nothing that others could stand in the way of.

    JSON that a program wrote has no control character in it, so our separator is in no payload but
    one that somebody wrote by hand.
    """
    return not (
        task.keys
        or task.dedup is not None
        or task.depends_on
        or task.group
        or task.refuse_if_held
        or task.delay is not None
        or task.run_at is not None
        or task.deadline is not None
        or SEPARATOR in task.payload
    )


def _by(hold: Hold | None) -> tuple[int | None, int | None, int]:
    return (hold.no, hold.attempt, hold.lease) if hold else (None, None, 0)


def _traces(tasks: Sequence[NewTask]) -> list[str | None] | None:
    traces = [task.trace for task in tasks]
    return traces if any(traces) else None


def one_args(offset: int, task: NewTask, by: Hold | None = None) -> tuple[object, ...]:
    """A plain task, in the order of functions/085_enqueue_plain.sql."""
    return (
        offset,
        task.lane,
        task.kind,
        SEPARATOR.join(sorted(task.requires)),
        task.priority,
        task.max_charged,
        micros(task.timeout),
        task.id,
        task.payload,
        task.trace,
        *_by(by),
    )


def plain_args(offset: int, tasks: Sequence[NewTask], by: Hold | None = None) -> tuple[object, ...]:
    """Two plain tasks or more, checked; what many have in common is said once.

    Ids and payloads go as one text each: the driver takes its time over each element of an array.
    """
    forms = _Numbering()
    form = [forms[t.lane, t.kind, t.requires, t.priority, t.max_charged, t.timeout] for t in tasks]
    for one in dict(zip(form, tasks, strict=True)).values() if len(forms) > 1 else tasks[:1]:
        one.check()
    ids, payloads = [task.id for task in tasks], [task.payload for task in tasks]
    traces = _traces(tasks)
    if traces or not _are_common(ids, payloads):
        for task in tasks:
            task.check_own()
    return (
        offset,
        [lane for lane, *_ in forms],
        [kind for _, kind, *_ in forms],
        [SEPARATOR.join(sorted(requires)) for _, _, requires, *_ in forms],
        [priority for _, _, _, priority, *_ in forms],
        [max_charged for *_, max_charged, _ in forms],
        [micros(timeout) for *_, timeout in forms],
        form if len(forms) > 1 else [],
        SEPARATOR.join(ids),
        SEPARATOR.join(payloads),
        traces,
        *_by(by),
    )


def _are_common(ids: Sequence[str], payloads: Sequence[str]) -> bool:
    """Whether nothing can be wrong with any of them, seen at a glance."""
    return (
        all(ids)
        and max(map(len, ids)) <= MAX_NAME
        and "".join(ids).isprintable()
        and max(map(len, payloads)) * MOST_BYTES <= MAX_PAYLOAD_BYTES
    )


def enqueue_answers(tasks: Sequence[NewTask], row: Any) -> list[Enqueue]:
    if row["o_unknown"] is not None:
        raise InvalidOption(
            f"depends_on names task {row['o_unknown']}, which does not exist; "
            "it may have been pruned"
        )
    if not row["o_left_out"] and not row["o_refused"]:
        return [Enqueued(task.id) for task in tasks]
    found = row["o_left_out"] or ()
    changed = row["o_changed"] or (False,) * len(found)
    left_out: dict[int, Enqueue] = {
        at: Duplicate(task_id, changes)
        for at, task_id, changes in zip(found, row["o_clash"] or (), changed, strict=True)
    }
    for at, why in zip(row["o_refused"] or (), row["o_why"] or (), strict=True):
        left_out[at] = Refused(why)
    return [left_out.get(at) or Enqueued(task.id) for at, task in enumerate(tasks, 1)]
