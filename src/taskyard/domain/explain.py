"""Why a task does not run: the conditions of a claim, one by one."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from taskyard.domain.state import State


class Condition(StrEnum):
    """The letters of engine-8."""

    STATE = "a"
    BATCH = "b"
    LANE = "c"
    KEYS = "d"
    NODE = "e"
    ORDER = "f"


class Wait(msgspec.Struct, frozen=True):
    condition: Condition
    code: str
    text: str
    figures: dict[str, int | str | list[str]] = {}


class Explanation(msgspec.Struct, frozen=True):
    id: str
    state: State
    waits: tuple[Wait, ...]

    @property
    def text(self) -> str:
        if self.waits:
            return "; ".join(wait.text for wait in self.waits)
        if self.state is State.QUEUED:
            return "nothing keeps it: it is next"
        return f"it is not waiting: it is {self.state}"
