"""Named points a running worker passes, where tests cut it down.

A crash test registers a hook that kills the process at a chosen point; otherwise passing one
costs a look at an empty list.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Point(StrEnum):
    BEFORE_CLAIM = "before_claim"
    AFTER_CLAIM = "after_claim"
    BEFORE_BODY = "before_body"
    AFTER_BODY = "after_body"
    BEFORE_FINISH = "before_finish"
    AFTER_FINISH = "after_finish"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


hooks: list[Callable[[Point], None]] = []


def reach(point: Point) -> None:
    for hook in hooks:
        hook(point)
