"""Saves new tasks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.errors import StaleAttempt
from taskyard.domain.node import Hold
from taskyard.domain.task import Duplicate, Enqueue, Enqueued, NewTask

_clashes = msgspec.msgpack.Decoder(list[str]).decode


def rows(tasks: Sequence[NewTask]) -> list[NewTask]:
    """A route is the same in whatever order its capabilities are named."""
    return [
        msgspec.structs.replace(task, requires=tuple(sorted(task.requires)))
        if len(task.requires) > 1
        else task
        for task in tasks
    ]


def answers(tasks: Sequence[NewTask], by: Hold | None, answer: bytes | None) -> list[Enqueue]:
    """From the id that stands in the way of each task, '' where there is none."""
    if answer is None:
        assert by is not None
        raise StaleAttempt(
            f"attempt {by.attempt} is no longer the accepted one of its task: nothing was enqueued"
        )
    return [
        Duplicate(clash) if clash else Enqueued(task.id)
        for task, clash in zip(tasks, _clashes(answer), strict=True)
    ]
