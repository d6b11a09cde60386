"""Declaring kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from taskyard.domain.classify import Rule
from taskyard.domain.errors import InvalidHandler
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.task import DEFAULT_LANE, DEFAULT_PRIORITY, DEFAULT_TIMEOUT
from taskyard.engine.context import Context
from taskyard.engine.registry import DEFAULT_RETRY, Kind
from taskyard.kind import TaskKind
from taskyard.verbs.tasks import TaskVerbs

P = ParamSpec("P")
R = TypeVar("R")


class Declare:
    """What `@yard.task(...)` gives: turns a function into a TaskKind."""

    def __init__(self, make: Callable[[Callable[..., Any]], TaskKind[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]]
    ) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> TaskKind[P, R]: ...

    def __call__(self, function: Callable[..., Any]) -> TaskKind[Any, Any]:
        return self._make(function)


class Declaring(TaskVerbs):
    """A kind asks the verbs of tasks, so it is declared where they are."""

    def task(
        self,
        bare: None = None,
        /,
        *,
        name: str | None = None,
        lane: str = DEFAULT_LANE,
        priority: int = DEFAULT_PRIORITY,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy = DEFAULT_RETRY,
        rules: Sequence[Rule] = (),
        isolate: bool = False,
        memory_limit: int | None = None,
    ) -> Declare:
        """Declare a kind: `async def` runs on the loop, `def` in a thread.

        `rules` are asked before the yard's own which errors are worth a retry. With `isolate` or a
        `memory_limit` (bytes; 500 MB unless said, 0 for none) bodies run in processes of their
        own, which can be killed; docs/guides/isolated.md.
        """
        if bare is not None:
            raise InvalidHandler("write @yard.task() with its brackets, also without options")

        def make(function: Callable[..., Any]) -> TaskKind[Any, Any]:
            kind = Kind(
                name or function.__name__,
                function,
                lane=lane,
                priority=priority,
                timeout=timeout,
                retry=retry,
                classifier=self.classifier.extended(*rules) if rules else self.classifier,
                isolate=isolate,
                memory_limit=memory_limit,
            )
            self.registry.add(kind)
            return TaskKind(kind, self)

        return Declare(make)

    def kind(self, name: str) -> TaskKind[..., Any]:
        """The declared task of this name."""
        return TaskKind(self.registry[name], self)
