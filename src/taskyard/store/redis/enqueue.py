"""Saves new tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.errors import InvalidOption, StaleAttempt
from taskyard.domain.node import Hold
from taskyard.domain.task import Duplicate, Enqueue, Enqueued, NewTask, Refused

_answers = msgspec.msgpack.Decoder(list[str | tuple[str, str]]).decode


def rows(tasks: Sequence[NewTask]) -> list[tuple[Any, ...]]:
    """As lua/parts/clashing.lua names them: without their names they take less time to read."""
    return [msgspec.structs.astuple(_routed(task)) for task in tasks]


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
