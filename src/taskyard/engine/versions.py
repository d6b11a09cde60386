"""Versions of a kind. A payload's version is part of its route, so that an old worker is never
given what only a new one understands.

Version 1 has the plain name, version 2 of `download` is the route `download@2`. A worker serves
its own version and every older one that it can bring up to it. What it cannot, it leaves to
workers that can: `explain` names the route nobody serves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from taskyard.domain.errors import InvalidArguments, InvalidHandler

FIRST = 1
Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""From the arguments of one version, as plain data, to those of the next."""

_ROUTE = re.compile(r"(.+)@([0-9]+)")


def route(name: str, version: int) -> str:
    return name if version == FIRST else f"{name}@{version}"


def split(route: str) -> tuple[str, int]:
    """The name and the version of a route."""
    match = _ROUTE.fullmatch(route)
    return (match[1], int(match[2])) if match else (route, FIRST)


class Versions:
    """Of one kind: which it is, and how older payloads are brought up to it."""

    def __init__(self, name: str, aliases: tuple[str, ...], current: int) -> None:
        self.names = (name, *aliases)
        self._current = current
        self._steps: dict[int, Migration] = {}
        if current < FIRST:
            raise InvalidHandler(f"task {name}: versions begin with {FIRST}, not {current}")
        for each in self.names:
            if _ROUTE.fullmatch(each):
                raise InvalidHandler(f"task {each}: a name cannot end like a version (@2)")

    @property
    def route(self) -> str:
        """What new tasks are enqueued under."""
        return route(self.names[0], self._current)

    @property
    def routes(self) -> tuple[str, ...]:
        """Everything that can be run: this version, and those before it without a gap."""
        numbers = range(self._current, self._oldest - 1, -1)
        return tuple(route(name, number) for name in self.names for number in numbers)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Older routes without a way up: those are for older workers."""
        return tuple(route(self.names[0], number) for number in range(FIRST, self._oldest))

    @property
    def _oldest(self) -> int:
        oldest = self._current
        while oldest - 1 in self._steps:
            oldest -= 1
        return oldest

    def add(self, from_version: int, migration: Migration) -> None:
        name = self.names[0]
        if not FIRST <= from_version < self._current:
            raise InvalidHandler(
                f"task {name} has version {self._current}: a migration starts from "
                f"{FIRST} to {self._current - 1}, not {from_version}"
            )
        if from_version in self._steps:
            raise InvalidHandler(f"task {name}: there are two migrations from {from_version}")
        self._steps[from_version] = migration

    def brought_up(self, served: str, payload: str) -> str:
        """The payload of a task of this route, as the current version has it."""
        _, version = split(served)
        arguments: dict[str, Any] = msgspec.json.decode(payload)
        for number in range(version, self._current):
            try:
                arguments = self._steps[number](arguments)
            except Exception as error:
                raise InvalidArguments(
                    f"{served}, from version {number} to {number + 1}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return msgspec.json.encode(arguments).decode()
