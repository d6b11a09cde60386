"""Saves new tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from taskyard.domain.errors import InvalidOption, StaleAttempt
from taskyard.domain.node import Hold
from taskyard.domain.task import Duplicate, Enqueue, Enqueued, NewTask, OnFailure, Refused

SMALL, LONGEST_KEY = 100, 31  # as in lua/parts/tasks.lua

_pack = msgspec.msgpack.Encoder().encode
_answers = msgspec.msgpack.Decoder(list[str | tuple[str, str]]).decode


def rows(tasks: Sequence[NewTask]) -> list[tuple[Any, ...]]:
    """As lua/parts/clashing.lua names them: without their names they take less time to read."""
    return [msgspec.structs.astuple(_routed(task)) for task in tasks]


def plain(tasks: Sequence[NewTask]) -> tuple[object, ...] | None:
    """As lua/enqueue_plain.lua takes them; None if one of them is not plain, or named twice."""
    sorts: dict[tuple[object, ...], int] = {}
    of_each, ids, definitions = list[int](), list[str](), list[msgspec.Raw]()
    keys: list[str | Literal[False]] = []
    traces: dict[int, str] = {}
    for task in tasks:
        if not _is_plain(task):
            return None
        sort = task.lane, _route(task), task.max_charged, task.priority
        of_each.append(sorts.setdefault(sort, len(sorts) + 1))
        ids.append(task.id)
        definitions.append(_definition(task))
        keys.append(task.keys[0] if task.keys else False)
        if task.trace is not None:
            traces[len(ids)] = task.trace
    if len(set(ids)) < len(ids):
        return None
    return list(sorts), of_each, ids, definitions, keys, traces or None


def one(tasks: Sequence[NewTask]) -> tuple[object, ...] | None:
    """As lua/enqueue_one.lua takes it; None if it is not one, or has a key, or is not plain."""
    if len(tasks) != 1:
        return None
    [task] = tasks
    if task.keys or not _is_plain(task):
        return None
    return (
        *(task.lane, _route(task), task.max_charged, task.priority),
        *(task.id, _definition(task), task.trace),
    )


def _route(task: NewTask) -> str:
    return f"{task.kind}\0" + "\0".join(sorted(task.requires))


def _is_plain(task: NewTask) -> bool:
    """Without anything that only some tasks have: see lua/parts/tasks.lua."""
    return (
        not (task.depends_on or task.refuse_if_held or task.dedup)
        and (not task.keys or (len(task.keys) == 1 and len(task.keys[0].encode()) <= LONGEST_KEY))
        and task.run_at is task.delay is task.deadline is None
        and task.on_failure is OnFailure.CANCEL
        and task.max_charged < SMALL
    )


def _definition(task: NewTask) -> msgspec.Raw:
    """A text of bytes: a list of eleven, of which the last, the time, is missing; of twelve if it
    carries a trace, which is missing too."""
    requires = task.requires if len(task.requires) < 2 else tuple(sorted(task.requires))
    packed = _pack(
        (
            *(task.id, task.kind, task.lane, task.payload, task.group, False, False),
            *(requires, task.max_charged, task.timeout),
        )
    )
    head = b"\x9b" if task.trace is None else b"\x9c"
    return msgspec.Raw(b"\xdb%b%b%b" % (len(packed).to_bytes(4), head, packed[1:]))


def _routed(task: NewTask) -> NewTask:
    """A route is the same in whatever order its capabilities are named."""
    if len(task.requires) < 2:
        return task
    return msgspec.structs.replace(task, requires=tuple(sorted(task.requires)))


def answers(
    tasks: Sequence[NewTask], by: Hold | None, answer: Sequence[bytes | None]
) -> list[Enqueue]:
    """From what lua/enqueue.lua answers."""
    if not answer:
        assert by is not None
        raise StaleAttempt(
            f"attempt {by.attempt} is no longer the accepted one of its task: nothing was enqueued"
        )
    return saved(tasks, answer)


def saved(tasks: Sequence[NewTask], answer: Sequence[bytes | None]) -> list[Enqueue]:
    packed, *unknown = answer
    if packed is None:
        [task_id] = unknown
        assert task_id is not None
        raise InvalidOption(
            f"depends_on names task {task_id.decode()}, which does not exist; "
            "it may have been pruned"
        )
    return [_answer(task, one) for task, one in zip(tasks, _answers(packed), strict=True)]


def _answer(task: NewTask, answer: str | tuple[str, str]) -> Enqueue:
    """'' for one that was saved; else a letter of lua/parts/enqueuing.lua, and an id or a text."""
    if isinstance(answer, str):
        return Enqueued(task.id)
    why, text = answer
    return Refused(text) if why == "r" else Duplicate(text, changed=why == "c")
