"""Brings a yard of an older layout into this one, a step at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from taskyard.domain.errors import SchemaMismatch
from taskyard.domain.state import State

STEP = 1000  # tasks at a time: some milliseconds of the server

Write = Callable[..., Awaitable[Any]]


async def migrate(write: Write, server: object, version: int) -> None:
    """Several may do it at once, and again from the beginning: a task is changed but once."""
    states = list(State)
    for state in states:
        is_last = state is states[-1]
        place = ""
        while True:
            answer, *nodes = await write("migrate", state, place, STEP, version, is_last)
            if nodes:
                names = ", ".join(node.decode() for node in nodes[0])
                raise SchemaMismatch(
                    f"{server} was made by an older Taskyard, whose workers run there: {names}. "
                    "Stop them first; the lease of one that died ends by itself"
                )
            place = answer.decode()
            if not place:
                break
