"""What users have called around bodies.

A hook runs where the body runs: on the loop, in its thread, in its process. One that fails is
logged; what becomes of the task is the body's affair alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from taskyard.domain.errors import InvalidHandler
from taskyard.engine.context import Context
from taskyard.engine.log import logger

log = logger("hooks")

Before = Callable[[Context], Awaitable[None] | None]
After = Callable[[Context, Any], Awaitable[None] | None]
OnError = Callable[[Context, BaseException], Awaitable[None] | None]
B = TypeVar("B", bound=Before)
A = TypeVar("A", bound=After)
E = TypeVar("E", bound=OnError)


class When(StrEnum):
    BEFORE = "before"  # (ctx): the arguments fit, the body is about to begin
    AFTER = "after"  # (ctx, result): it has returned, and that is its result
    ERROR = "error"  # (ctx, error): the attempt has failed


_TAKES = {When.BEFORE: 1, When.AFTER: 2, When.ERROR: 2}


class Hooks:
    """Those of a yard, or of a kind behind those of its yard, in the order they were declared."""

    def __init__(self, wider: Hooks | None = None) -> None:
        self._wider = wider
        self._on_use: list[Callable[[], None]] = []
        self._own: dict[When, list[Callable[..., Any]]] = {when: [] for when in When}
        self.is_used = False  # asked for every body, so it is a plain attribute
        if wider is not None:
            wider.when_used(self._use)

    def add(self, when: When, hook: Callable[..., Any]) -> None:
        try:
            inspect.signature(hook).bind(*range(_TAKES[when]))
        except TypeError as error:
            raise InvalidHandler(f"{when} hook {hook!r}: {error}") from None
        self._own[when].append(hook)
        self._use()

    def when_used(self, tell: Callable[[], None]) -> None:
        """Call this with each hook that is added, and now if there are some."""
        self._on_use.append(tell)
        if self.is_used:
            tell()

    def _use(self) -> None:
        self.is_used = True
        for tell in self._on_use:
            tell()

    def of(self, when: When) -> Iterator[Callable[..., Any]]:
        if self._wider is not None:
            yield from self._wider.of(when)
        yield from self._own[when]

    async def call(self, when: When, context: Context, *args: object) -> None:
        for hook in self.of(when):
            try:
                answer = hook(context, *args)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                _log(when, hook, context)

    def call_blocking(self, when: When, context: Context, *args: object) -> None:
        """From a thread or a process."""
        for hook in self.of(when):
            try:
                answer = hook(context, *args)
                if inspect.isawaitable(answer):
                    context.awaited(partial(_awaited, answer))
            except Exception:
                _log(when, hook, context)


async def _awaited(answer: Awaitable[None]) -> None:
    await answer


def _log(when: When, hook: Callable[..., Any], context: Context) -> None:
    name = getattr(hook, "__qualname__", repr(hook))
    log.exception("hook", when=when, hook=name, task=context.id, kind=context.kind)
